"""tile cache: what it prints, what it changes, what it refuses."""

import io
import json
import os
import tarfile
import time

import pytest

from tile_core.cli.main import main
from tile_core.settings import settings
from tile_runtime.cache import DiskCache
from tile_runtime.cache.command import run
from tile_runtime.compiler import disk_cache

DAY = 86400


def description(name):
    return json.dumps({"name": name, "target": ["cpu", {"mcpu": "native", "fma": 1}]}).encode()


@pytest.fixture
def cache(tmp_path):
    """Three kernels: k0 used now, k1 ten days ago, k2 twenty days ago."""
    with settings.scope(cache_dir=tmp_path / "cache", cache_shared_dir=()):
        cache = disk_cache().writable
        for number in range(3):
            key = f"{number:x}" * 64
            folder = cache.publish(key, {"kernel.json": description(f"k{number}"), "kernel.so": b"x" * 1000}).folder
            os.utime(folder, (time.time() - 10 * number * DAY,) * 2)
        yield cache


def words(capsys, *given):
    code = run(given)
    return code, capsys.readouterr().out


def test_list_shows_the_least_recently_used_first(cache, capsys):
    code, text = words(capsys, "list")
    lines = text.splitlines()
    assert code == 0 and lines[-1] == "3 kernels"
    assert [line.split()[0] for line in lines[:-1]] == [digit * 16 for digit in "210"]
    assert lines[0].endswith("20 d  k2  cpu -mcpu=native")
    _, text = words(capsys, "list", "--json")
    assert [(row["kernel"], row["days"]) for row in json.loads(text)] == [("k2", 20), ("k1", 10), ("k0", 0)]


def test_info_says_where_and_how_much(cache, capsys):
    code, text = words(capsys, "info")
    assert code == 0
    assert text.splitlines()[:4] == [
        f"folder           {cache.root}",
        "enabled          yes",
        "usable           yes",
        "shared layers    none",
    ]
    assert text.splitlines()[4] == "remote layer     none"
    assert text.splitlines()[5].startswith("kernels          3, 4.")
    with settings.scope(disable_cache=True):
        assert not json.loads(words(capsys, "info", "--json")[1])["enabled"]
    cache.root.chmod(0o777)
    assert f"usable           everybody may write to {cache.root}" in words(capsys, "info")[1]


def test_verify_finds_damage_and_repairs_when_asked(cache, capsys):
    assert words(capsys, "verify") == (0, "3 kernels, 0 damaged\n")
    (cache.kernels / ("1" * 64) / "kernel.so").write_bytes(b"x" * 999)
    code, text = words(capsys, "verify")
    assert code == 1 and text == f"{'1' * 16}  kernel.so has 999 bytes, not 1000\n3 kernels, 1 damaged\n"
    assert len(cache.keys()) == 3
    code, text = words(capsys, "verify", "--repair")
    assert code == 0 and text.endswith("3 kernels, 1 damaged, removed\n")
    assert len(cache.keys()) == 2


def test_prune_by_age(cache, capsys):
    code, text = words(capsys, "prune", "--older-than", "15d", "--dry-run")
    assert code == 0 and "1 kernels would go" in text and len(cache.keys()) == 3
    words(capsys, "prune", "--older-than", "15d")
    assert cache.keys() == ("0" * 64, "1" * 64)


def test_prune_by_size_takes_the_least_recently_used(cache, capsys):
    code, text = words(capsys, "prune", "--max-size", "2k")
    assert code == 0 and cache.keys() == ("0" * 64,) and text.endswith("1 stay\n")


def test_what_other_releases_left_is_told_and_pruned_when_asked(cache, capsys):
    old = DiskCache(cache.root, "0.0.1")
    old.publish("a" * 64, {"kernel.json": description("old"), "kernel.so": b"x" * 1000})
    assert "version 0.0.1    1, 1." in words(capsys, "info")[1]
    assert json.loads(words(capsys, "info", "--json")[1])["other_versions"]["0.0.1"][0] == 1
    code, text = words(capsys, "prune", "--other-versions", "--dry-run")
    assert code == 0 and "aaaaaaaa" in text and "1 kernels would go" in text and len(old.keys()) == 1
    code, text = words(capsys, "prune", "--other-versions")
    assert "1 kernels removed" in text and "; 3 stay" in text and not old.keys() and len(cache.keys()) == 3
    assert json.loads(words(capsys, "info", "--json")[1])["other_versions"] == {}


def test_export_and_import_on_another_machine(cache, capsys, tmp_path):
    (cache.kernels / ("2" * 64) / "kernel.so").write_bytes(b"damaged")
    file = tmp_path / "kernels.tar"
    code, text = words(capsys, "export", str(file))
    assert code == 0 and text == f"2 kernels written to {file}, 1 damaged ones left out\n"
    with settings.scope(cache_dir=tmp_path / "elsewhere"):
        assert words(capsys, "import", str(file)) == (0, "2 kernels added, 0 known already, 0 refused\n")
        assert words(capsys, "import", str(file)) == (0, "0 kernels added, 2 known already, 0 refused\n")
        assert disk_cache().load("1" * 64).read("kernel.so") == b"x" * 1000


def test_export_of_one_by_its_key(cache, capsys, tmp_path):
    assert words(capsys, "export", str(tmp_path / "one.tar"), "--key", "11")[1].startswith("1 kernels written")


def _archive(path, members):
    with tarfile.open(path, "w") as archive:
        for name, content in members:
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))


def test_import_refuses_what_does_not_fit_its_manifest(cache, capsys, tmp_path):
    file = tmp_path / "kernels.tar"
    words(capsys, "export", str(file), "--key", "0")
    with tarfile.open(file) as archive:
        members = [(member.name, archive.extractfile(member).read()) for member in archive]
    bad = [(name, content + b"!" if name.endswith("kernel.so") else content) for name, content in members]
    _archive(file, [*bad, ("../../evil", b"x"), (f"{'3' * 64}/../../evil", b"x")])
    with settings.scope(cache_dir=tmp_path / "elsewhere"):
        code, text = words(capsys, "import", str(file))
        assert code == 1 and text.splitlines() == [
            "../../evil: is no file of an entry",
            f"{'3' * 64}/../../evil: is no file of an entry",
            f"{'0' * 16}: kernel.so has 1001 bytes, not 1000",
            "0 kernels added, 0 known already, 3 refused",
        ]
        assert disk_cache().keys() == ()
    assert not list(tmp_path.rglob("evil"))


def test_import_refuses_other_files_and_other_machines(cache, capsys, tmp_path):
    strange = tmp_path / "strange.tar"
    strange.write_bytes(b"no archive")
    assert main(["cache", "import", str(strange)]) == 1
    assert "E-CACHE-ARCHIVE" in capsys.readouterr().err
    _archive(strange, [("tile-kernels-1", b"plan9-mips")])
    assert main(["cache", "import", str(strange)]) == 1
    assert "found: plan9-mips" in capsys.readouterr().err
    assert main(["cache", "import", str(tmp_path / "absent.tar")]) == 1


@pytest.mark.parametrize(
    ("given", "code", "told"),
    [
        (("prune",), 1, "nothing says what may go"),
        (("prune", "--older-than", "soon"), 1, "'soon' is no time"),
        (("prune", "--max-size", "much"), 1, "'much' is no size"),
        (("prune", "--max-size", "-1"), 1, "'-1' is no size"),
        (("prune", "--max-size"), 2, "usage"),
    ],
)
def test_words_that_mean_nothing_are_told(cache, capsys, given, code, told):
    assert main(["cache", *given]) == code
    text = capsys.readouterr().err
    assert told in text and ("E-CACHE-COMMAND" in text) == (code == 1)
    assert len(cache.keys()) == 3
