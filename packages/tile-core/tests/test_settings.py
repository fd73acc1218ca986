"""Settings: live reading, typed errors, overrides, the table."""

import pickle
from pathlib import Path

import pytest

from tile_core.errors import SettingError
from tile_core.settings import Settings, settings, settings_table


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch):
    for setting in Settings.all():
        for name in (setting.name, *setting.fallbacks):
            monkeypatch.delenv(name, raising=False)


def test_every_setting_has_a_default_that_reads():
    for setting in Settings.all():
        assert getattr(settings, setting.attribute) == setting.default_value()


def test_a_changed_environment_shows_at_once(monkeypatch):
    assert settings.disable_cache is False
    monkeypatch.setenv("TILE_DISABLE_CACHE", "yes")
    assert settings.disable_cache is True
    monkeypatch.setenv("TILE_DISABLE_CACHE", "")
    assert settings.disable_cache is False


@pytest.mark.parametrize(
    ("name", "text", "attribute", "value"),
    [
        ("TILE_NUM_THREADS", "3", "num_threads", 3),
        ("TILE_COMPILE_TIMEOUT_SECONDS", "2.5", "compile_timeout_seconds", 2.5),
        ("TILE_CACHE_DIR", "/a/b", "cache_dir", Path("/a/b")),
        ("TILE_DUMP_IR_DIR", "/d", "dump_ir_dir", Path("/d")),
        ("TILE_BACKENDS", "ascend=acme-tile-ascend, cuda = x", "backends", {"ascend": "acme-tile-ascend", "cuda": "x"}),
        ("TILE_DISABLE_PLUGINS", "a, b", "disable_plugins", ("a", "b")),
        ("TILE_DEFAULT_TARGET", "cuda -arch=sm_90a", "default_target", "cuda -arch=sm_90a"),
        ("CXX", "clang++", "cc", "clang++"),
        ("TILE_CC", "g++-12", "cc", "g++-12"),
    ],
)
def test_values_are_typed(monkeypatch, name, text, attribute, value):
    monkeypatch.setenv(name, text)
    assert getattr(settings, attribute) == value


def test_tile_cc_wins_over_cxx(monkeypatch):
    monkeypatch.setenv("CXX", "clang++")
    monkeypatch.setenv("TILE_CC", "g++")
    assert settings.cc == "g++"


@pytest.mark.parametrize(
    ("name", "text", "attribute"),
    [
        ("TILE_NUM_THREADS", "0", "num_threads"),
        ("TILE_NUM_THREADS", "four", "num_threads"),
        ("TILE_DISABLE_CACHE", "maybe", "disable_cache"),
        ("TILE_COMPILE_TIMEOUT_SECONDS", "-1", "compile_timeout_seconds"),
        ("TILE_COMPILE_TIMEOUT_SECONDS", "nan", "compile_timeout_seconds"),
        ("TILE_BACKENDS", "ascend", "backends"),
        ("TILE_BACKENDS", "a=b,a=c", "backends"),
        ("TILE_DISABLE_PLUGINS", "a,,b", "disable_plugins"),
    ],
)
def test_a_value_that_cannot_be_read_names_the_variable_and_what_is_allowed(monkeypatch, name, text, attribute):
    monkeypatch.setenv(name, text)
    with pytest.raises(SettingError) as caught:
        getattr(settings, attribute)
    error = caught.value
    assert error.code == "E-SETTING"
    assert name in error.summary
    assert repr(text) in str(error) and getattr(Settings, attribute).allowed in str(error)


def test_the_text_of_a_setting_error(monkeypatch):
    monkeypatch.setenv("TILE_NUM_THREADS", "many")
    with pytest.raises(SettingError) as caught:
        _ = settings.num_threads
    assert str(caught.value) == (
        "error[E-SETTING]: TILE_NUM_THREADS cannot be read\n"
        "   found:   'many'\n"
        "   allowed: a whole number, 1 or more\n"
        "  help: set TILE_NUM_THREADS to an allowed value, or unset it (default: none)"
    )
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)


def test_scope_overrides_and_restores(monkeypatch):
    monkeypatch.setenv("TILE_NUM_THREADS", "2")
    with settings.scope(num_threads=7):
        with settings.scope(num_threads=None, verbose=True):
            assert settings.num_threads is None and settings.verbose
        assert settings.num_threads == 7 and not settings.verbose
    assert settings.num_threads == 2


def test_scope_refuses_a_name_that_is_no_setting():
    with pytest.raises(AttributeError, match="did you mean 'num_threads'"), settings.scope(num_thread=1):
        raise AssertionError("not reached")


def test_assigning_tells_what_to_do_instead():
    with pytest.raises(AttributeError, match=r"settings\.scope\(verbose=…\)"):
        settings.verbose = True


def test_unknown_variables_come_with_the_nearest_setting(monkeypatch):
    monkeypatch.setenv("TILE_CACHEDIR", "/x")
    assert settings.unknown_variables()["TILE_CACHEDIR"] == "TILE_CACHE_DIR"


def test_the_table_lists_every_setting():
    table = settings_table()
    for setting in Settings.all():
        assert f"`{setting.name}`" in table and setting.doc in table


def test_platform_default_of_the_cache_folder(monkeypatch):
    monkeypatch.setattr("sys.platform", "linux")
    monkeypatch.setenv("XDG_CACHE_HOME", "/xdg")
    assert settings.cache_dir == Path("/xdg/tile")


def test_a_user_without_a_home_gets_a_folder_of_their_own(monkeypatch, tmp_path):
    def homeless(path):
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "expanduser", homeless)
    monkeypatch.setattr("tempfile.gettempdir", lambda: str(tmp_path))
    monkeypatch.setattr("os.getuid", lambda: 54321, raising=False)
    for name in ("TILE_CACHE_DIR", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    assert settings.cache_dir == tmp_path / "tile-54321"
    monkeypatch.setenv("TILE_CACHE_DIR", "~/kernels")
    with pytest.raises(SettingError, match="TILE_CACHE_DIR"):
        _ = settings.cache_dir


def test_an_attribute_is_its_variable_in_small_letters():
    for setting in Settings.all():
        assert setting.name == f"TILE_{setting.attribute.upper()}"
