"""Cache keys: a pure function of the parts; digests of code follow contents, not times."""

import hashlib
import os
import subprocess
import sys

import pytest

from tile_runtime.cache import cache_key, code_digest
from tile_runtime.cache.key import Digests

PARTS = {"ir": "def f(): …", "options": {"b": True, "a": [1, 2.5, None]}, "target": "cpu"}


def test_the_key_is_the_same_in_another_process():
    program = f"from tile_runtime.cache import cache_key; print(cache_key({PARTS!r}))"
    for seed in ("0", "1"):
        run = subprocess.run(
            [sys.executable, "-c", program],
            capture_output=True,
            text=True,
            check=True,
            env={**os.environ, "PYTHONHASHSEED": seed},
        )
        assert run.stdout.strip() == cache_key(PARTS)


def test_the_key_of_fixed_parts_is_this_one():
    text = '{"ir":"x","n":[1,{"float":"0x1.8000000000000p+0"}]}'
    assert cache_key({"n": (1, 1.5), "ir": "x"}) == hashlib.sha256(text.encode()).hexdigest()


def test_order_of_a_mapping_does_not_matter_but_of_a_sequence_does():
    assert cache_key({"a": 1, "b": 2}) == cache_key({"b": 2, "a": 1})
    assert cache_key({"a": [1, 2]}) != cache_key({"a": [2, 1]})


@pytest.mark.parametrize(
    ("one", "other"), [(1, True), (1, 1.0), (0, False), (0.0, -0.0), (None, "None"), ("1", 1), ("", None), ([], {})]
)
def test_values_that_python_calls_equal_or_prints_alike_differ(one, other):
    assert cache_key({"x": one}) != cache_key({"x": other})


@pytest.mark.parametrize("value", [object(), {1, 2}, {1: "a"}, b"bytes", len])
def test_what_has_no_canonical_text_is_refused_with_its_place(value):
    with pytest.raises(TypeError, match=r"parts\['options'\]\['x'\]"):
        cache_key({"options": {"x": value}})


@pytest.fixture
def package(tmp_path, monkeypatch):
    folder = tmp_path / "site" / "sample_pkg"
    (folder / "inner").mkdir(parents=True)
    (folder / "__init__.py").write_text("a = 1\n")
    (folder / "inner" / "x.h").write_text("int x;\n")
    (folder / "notes.txt").write_text("no code\n")
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    return folder


def test_a_digest_follows_contents_not_times(package):
    first = code_digest("sample_pkg")
    os.utime(package / "__init__.py", (1, 1))
    assert Digests().of("sample_pkg") == first == code_digest("sample_pkg")
    (package / "__init__.py").write_text("a = 2\n")
    second = code_digest("sample_pkg")
    assert second != first
    (package / "inner" / "x.h").write_text("long x;\n")
    assert code_digest("sample_pkg") not in (first, second)


def test_a_new_or_renamed_file_changes_the_digest_and_other_files_do_not(package):
    first = code_digest("sample_pkg")
    (package / "notes.txt").write_text("more\n")
    (package / "__pycache__").mkdir()
    (package / "__pycache__" / "x.py").write_text("")
    assert code_digest("sample_pkg") == first
    os.rename(package / "inner" / "x.h", package / "inner" / "y.h")
    assert code_digest("sample_pkg") != first


def test_an_unchanged_file_is_read_once(package, monkeypatch):
    digests, read = Digests(), []
    real = type(package).read_bytes
    monkeypatch.setattr(type(package), "read_bytes", lambda path: read.append(path) or real(path))
    assert digests.of("sample_pkg") == digests.of("sample_pkg.inner")
    assert len(read) == 2


def test_an_installed_package_is_known_by_its_record(package):
    info = package.parent / "sample-1.0.dist-info"
    info.mkdir()
    record = "sample_pkg/__init__.py,sha256=AAA,6\nsample_pkg/inner/x.h,sha256=BBB,7\nsample-1.0.dist-info/RECORD,,\n"
    (info / "RECORD").write_text(record)
    first = code_digest("sample_pkg")
    (package / "__init__.py").write_text("touched by hand\n")
    assert code_digest("sample_pkg") == first
    (info / "RECORD").write_text(record.replace("BBB", "CCC"))
    assert code_digest("sample_pkg") != first


def test_a_single_module_is_known_by_its_contents(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "lonely_pass.py").write_text("a = 1\n")
    first = code_digest("lonely_pass")
    (tmp_path / "lonely_pass.py").write_text("a = 3\n")
    assert first and code_digest("lonely_pass") not in (None, first)


def test_code_without_a_file_has_no_digest():
    assert code_digest("no_such_module_at_all") is None
    assert code_digest("sys") is None


def test_a_script_is_known_by_its_contents_and_an_interactive_session_not(tmp_path, monkeypatch):
    main = sys.modules["__main__"]
    (tmp_path / "script.py").write_text("a = 1\n")
    monkeypatch.setattr(main, "__file__", str(tmp_path / "script.py"), raising=False)
    first = code_digest("__main__")
    (tmp_path / "script.py").write_text("a = 10\n")
    assert first and code_digest("__main__") not in (None, first)
    monkeypatch.delattr(main, "__file__")
    assert code_digest("__main__") is None


def test_core_and_runtime_have_digests():
    assert len({code_digest("tile_core"), code_digest("tile_runtime")}) == 2
