"""The store of device binaries: found by what they were made from, never changed, never removed."""

import errno
import multiprocessing
import os
import time

import pytest

from tile_core.plugin import BinaryStore as Protocol
from tile_runtime.cache import BinaryStore

PARTS = {"source": "__global__ void f();", "arch": "sm_80", "options": ["-O3"], "compiler": "nvrtc 13.0", "header": "h"}
FILES = {"kernel.cubin": b"\x7fELF" * 50, "kernel.ptx": b".version 8"}


@pytest.fixture
def store(tmp_path):
    return BinaryStore((tmp_path / "cache",), "1.0")


def folders(store, family="cuda"):
    return sorted(path.name for path in (store.roots[0] / "1.0" / f"{family}-binaries").iterdir())


def test_what_is_kept_is_found_in_another_process(store):
    assert store.find("cuda", PARTS) is None
    store.keep("cuda", PARTS, FILES)
    assert BinaryStore(store.roots, "1.0").find("cuda", PARTS) == FILES
    assert folders(store) == [store.key(PARTS)]
    assert isinstance(store, Protocol)


@pytest.mark.parametrize("part", PARTS)
def test_each_part_decides(store, part):
    store.keep("cuda", PARTS, FILES)
    changed = {**PARTS, part: ["-O3", "--use_fast_math"] if part == "options" else PARTS[part] + "x"}
    assert store.find("cuda", changed) is None
    assert store.find("ascend", PARTS) is None


def test_the_first_publisher_wins(store):
    store.keep("cuda", PARTS, FILES)
    store.keep("cuda", PARTS, {"kernel.cubin": b"other"})
    assert store.find("cuda", PARTS) == FILES and len(folders(store)) == 1


def test_damage_is_passed_over_and_repaired_beside_it_and_nothing_is_removed(store):
    store.keep("cuda", PARTS, FILES)
    broken = store.roots[0] / "1.0" / "cuda-binaries" / store.key(PARTS) / "kernel.cubin"
    broken.write_bytes(b"short")
    assert store.find("cuda", PARTS) is None
    store.keep("cuda", PARTS, FILES)
    assert store.find("cuda", PARTS) == FILES
    assert folders(store) == [store.key(PARTS), f"{store.key(PARTS)}.1"]
    assert broken.read_bytes() == b"short"


def test_a_shared_store_is_read_and_not_written(tmp_path):
    BinaryStore((tmp_path / "team",), "1.0").keep("cuda", PARTS, FILES)
    store = BinaryStore((tmp_path / "mine", tmp_path / "team"), "1.0")
    assert store.find("cuda", PARTS) == FILES
    other = {**PARTS, "arch": "sm_90"}
    store.keep("cuda", other, FILES)
    assert folders(store) == [store.key(other)]
    assert len(list((tmp_path / "team" / "1.0" / "cuda-binaries").iterdir())) == 1


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EACCES, errno.EIO])
@pytest.mark.parametrize("name", ["mkdir", "open", "write", "fsync", "rename"])
def test_a_disk_that_fails_costs_the_store_only(store, monkeypatch, code, name):
    def fail(*args, **kwargs):
        raise OSError(code, os.strerror(code))

    with monkeypatch.context() as patch:
        patch.setattr(os, name, fail)
        store.keep("cuda", PARTS, FILES)
    assert store.find("cuda", PARTS) in (None, FILES)
    store.keep("cuda", PARTS, FILES)
    assert store.find("cuda", PARTS) == FILES
    left = list((store.roots[0] / "1.0" / ".staging").iterdir())
    assert len(left) <= (name == "open")  # without open, a folder cannot be emptied either: it is swept later


def test_a_folder_that_everybody_may_write_to_is_not_used(store):
    store.keep("cuda", PARTS, FILES)
    (store.roots[0] / "1.0" / "cuda-binaries").chmod(0o777)
    assert store.find("cuda", PARTS) is None


def test_what_dead_processes_left_is_swept(store):
    stale = store.roots[0] / "1.0" / ".staging" / "1-old"
    stale.mkdir(parents=True)
    os.utime(stale, (time.time() - 4000,) * 2)
    store.keep("cuda", PARTS, FILES)
    assert not stale.exists()


def _keep(root, number):
    BinaryStore((root,), "1.0").keep("cuda", PARTS, {"kernel.cubin": bytes([number]) * 90_000})


def test_eight_processes_keep_one_binary_at_once(tmp_path):
    fork = multiprocessing.get_context("fork")
    children = [fork.Process(target=_keep, args=(tmp_path, number)) for number in range(8)]
    for child in children:
        child.start()
    for child in children:
        child.join(30)
        assert child.exitcode == 0
    found = BinaryStore((tmp_path,), "1.0").find("cuda", PARTS)["kernel.cubin"]
    assert len(found) == 90_000 and len(set(found)) == 1
