"""What the environment asks of every compile."""

import pytest

import tile_core as tile
import tile_core.language as T
from tile_core.errors import SettingError, TileError
from tile_core.settings import settings


@T.prim_func
def double(A: T.Tensor((64,), "float32"), B: T.Tensor((64,), "float32")):
    with T.Kernel(1, threads=32):
        for i in T.Parallel(64):
            B[i] = A[i] * 2.0


def test_times_of_passes_are_printed(monkeypatch, capsys):
    monkeypatch.setenv("TILE_PASS_PROFILE", "1")
    tile.lower(double, "cpu")
    err = capsys.readouterr().err
    assert err.startswith("tile: passes of double\n") and "LowerParallelLoops" in err and "total" in err
    monkeypatch.setenv("TILE_PASS_PROFILE_THRESHOLD_MS", "100000")
    tile.lower(double, "cpu")
    err = capsys.readouterr().err
    assert "LowerParallelLoops" not in err and "passes below 100000 ms; all take" in err


def test_differences_of_passes_are_shown(monkeypatch, capsys, tmp_path):
    monkeypatch.setenv("TILE_PASS_DIFF", "both")
    monkeypatch.setenv("TILE_DUMP_IR_DIR", str(tmp_path))
    tile.lower(double, "cpu")
    err = capsys.readouterr().err
    assert "# ===== double: " in err and "\n+" in err and "\n-" in err
    page = (tmp_path / "double.passes.html").read_text()
    assert "IR of double" in page and f"tile: wrote {tmp_path / 'double.passes.html'}" in err


def test_a_pass_that_finds_something_wrong_is_the_last_one_shown(monkeypatch, tmp_path):
    @T.prim_func
    def outside(A: T.Tensor((64,), "float32")):
        with T.Kernel(1, threads=32):
            tile_ = T.alloc_shared((8,), "float32")
            tile_[0] = 1.0
            A[0] = tile_[9]

    monkeypatch.setenv("TILE_PASS_DIFF", "html")
    monkeypatch.setenv("TILE_DUMP_IR_DIR", str(tmp_path))
    with pytest.raises(TileError):
        tile.lower(outside, "cpu")
    assert "What stopped it" in (tmp_path / "outside.passes.html").read_text()


def test_nothing_is_said_unasked(capsys):
    tile.lower(double, "cpu")
    assert capsys.readouterr().err == "" and not settings.watches_passes


@pytest.mark.parametrize(
    ("variable", "text"),
    [
        ("TILE_PASS_DIFF", "loud"),
        ("TILE_PASS_PROFILE_THRESHOLD_MS", "-1"),
        ("TILE_AUTOTUNE_CPU_SHARE", "1.5"),
        ("TILE_DEFAULT_TARGET", "{'kind': 'cuda'}"),
        ("TILE_DEFAULT_TARGET", '{"arch": "sm_80"}'),
    ],
)
def test_texts_that_mean_nothing_are_refused(monkeypatch, variable, text):
    monkeypatch.setenv(variable, text)
    attribute = next(setting.attribute for setting in settings.all() if setting.name == variable)
    with pytest.raises(SettingError, match=f"{variable} cannot be read"):
        getattr(settings, attribute)


def test_the_default_target_may_be_json(monkeypatch):
    monkeypatch.setenv("TILE_DEFAULT_TARGET", '{"kind": "cuda", "arch": "sm_90a"}')
    assert str(tile.lower(double).target) == "cuda -arch=sm_90a"
