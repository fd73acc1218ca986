"""The disk cache: never a bad entry, no good one lost, one warning for each trouble."""

import errno
import json
import multiprocessing
import os
import time
import warnings
from pathlib import Path

import pytest

from tile_core.errors import CacheWarning
from tile_runtime.cache import DiskCache

KEY = "ab" * 32
FILES = {"host.c": b"int main;\n", "kernel.so": bytes(range(256)) * 40}
OTHER = {"host.c": b"other\n", "kernel.so": b"x" * 9000}

# Every system call by which a publication changes the disk.
CALLS = ("mkdir", "open", "write", "fsync", "close", "rename", "lstat", "rmdir", "unlink")


@pytest.fixture
def cache(tmp_path):
    return DiskCache(tmp_path / "cache", "1.0")


def contents(cache, key=KEY):
    entry = cache.load(key)
    return entry and {name: entry.read(name) for name in entry.files}


def staged(cache):
    return list(cache.staging.iterdir()) if cache.staging.exists() else []


def told(record):
    return [str(w.message) for w in record if issubclass(w.category, CacheWarning)]


def test_what_is_published_is_found(cache):
    assert cache.load(KEY) is None
    entry = cache.publish(KEY, FILES)
    assert {name: entry.read(name) for name in entry.files} == FILES
    assert contents(DiskCache(cache.root, "1.0")) == FILES
    assert cache.keys() == (KEY,)
    assert staged(cache) == []


def test_layout_names_version_and_machine(cache):
    folder = cache.publish(KEY, FILES).folder
    assert folder.parent.name == "kernels"
    assert folder.parent.parent.parent == cache.root / "1.0"
    manifest = json.loads((folder / "manifest.json").read_text())
    assert manifest["key"] == KEY and set(manifest["files"]) == set(FILES)
    assert manifest["files"]["kernel.so"]["size"] == len(FILES["kernel.so"])


def test_the_first_publisher_wins(cache):
    cache.publish(KEY, FILES)
    entry = cache.publish(KEY, OTHER)
    assert entry.read("host.c") == FILES["host.c"]
    assert staged(cache) == []


def test_versions_do_not_see_each_other(cache):
    cache.publish(KEY, FILES)
    assert DiskCache(cache.root, "1.1").load(KEY) is None


def test_clear_and_discard_remove_entries(cache):
    cache.publish(KEY, FILES)
    cache.publish("cd" * 32, OTHER)
    cache.discard(KEY)
    assert cache.keys() == ("cd" * 32,)
    cache.clear()
    assert cache.keys() == () and staged(cache) == []


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "manifest.json"])
def test_a_name_that_leaves_the_entry_is_refused(cache, name):
    with pytest.raises(ValueError, match="cannot name a file"):
        cache.publish(KEY, {name: b""})


def _flip(path: Path):
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


DAMAGE = {
    "a flipped bit": lambda folder: _flip(folder / "kernel.so"),
    "a short file": lambda folder: (folder / "kernel.so").write_bytes(FILES["kernel.so"][:-1]),
    "an empty file": lambda folder: (folder / "host.c").write_bytes(b""),
    "a missing file": lambda folder: (folder / "kernel.so").unlink(),
    "no manifest": lambda folder: (folder / "manifest.json").unlink(),
    "half a manifest": lambda folder: (folder / "manifest.json").write_bytes(b'{"format": 1, "fi'),
    "another manifest": lambda folder: (folder / "manifest.json").write_text('{"format":1,"key":"x","files":{}}'),
    "a manifest of another shape": lambda folder: (folder / "manifest.json").write_text("[1]"),
}


@pytest.mark.parametrize("kind", DAMAGE)
def test_a_damaged_entry_is_removed_told_once_and_made_anew(cache, kind):
    DAMAGE[kind](cache.publish(KEY, FILES).folder)
    with warnings.catch_warnings(record=True) as record:
        warnings.simplefilter("always")
        assert cache.load(KEY) is None
        assert cache.load(KEY) is None
        assert cache.keys() == ()
        DAMAGE[kind](cache.publish(KEY, FILES).folder)
        assert cache.load(KEY) is None
        assert cache.publish(KEY, FILES) is not None
    (text,) = told(record)
    assert text.startswith(f"cache entry {KEY[:16]}… was damaged (") and text.endswith(
        "); it is removed and the kernel compiled anew"
    )
    assert contents(cache) == FILES and staged(cache) == []


def test_publishing_over_a_damaged_entry_repairs_it(cache):
    _flip(cache.publish(KEY, FILES).folder / "host.c")
    with pytest.warns(CacheWarning, match="the checksum of host.c differs"):
        entry = cache.publish(KEY, OTHER)
    assert entry.read("host.c") == OTHER["host.c"]


def test_a_good_entry_published_while_a_damaged_one_is_removed_stays(cache, monkeypatch):
    folder = cache.publish(KEY, FILES).folder
    _flip(folder / "kernel.so")
    real = os.rename
    other = DiskCache(cache.root, "1.0")

    def rename(source, target):
        monkeypatch.setattr(os, "rename", real)
        if Path(source) == folder:  # between the look and the removal, another process repairs the entry
            other._remove(KEY)
            other.publish(KEY, FILES)
        real(source, target)

    monkeypatch.setattr(os, "rename", rename)
    with warnings.catch_warnings():
        warnings.simplefilter("error", CacheWarning)
        assert cache.load(KEY) is None
    assert contents(cache) == FILES and staged(cache) == []


def test_a_damaged_entry_that_cannot_be_removed_is_never_used(cache, monkeypatch):
    _flip(cache.publish(KEY, FILES).folder / "host.c")

    def refuse(source, target):
        raise PermissionError(errno.EACCES, "Permission denied", str(source))

    monkeypatch.setattr(os, "rename", refuse)
    with warnings.catch_warnings(record=True) as record:
        warnings.simplefilter("always")
        assert cache.load(KEY) is None
        assert cache.load(KEY) is None
    (text,) = told(record)
    assert "cannot be removed" in text


class Fault:
    """Counts the calls of `names` in module os and acts at the n-th."""

    def __init__(self, monkeypatch, names, at, act):
        self.count, self.at, self.act = 0, at, act
        for name in names:
            monkeypatch.setattr(os, name, self._wrapped(name, getattr(os, name)))

    def _wrapped(self, name, real):
        def call(*args, **kwargs):
            self.count += 1
            if self.count == self.at:
                self.act(name)
            return real(*args, **kwargs)

        return call


def raising(code):
    def act(name):
        raise OSError(code, os.strerror(code))

    return act


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EACCES, errno.EROFS, errno.EIO, errno.EDQUOT])
@pytest.mark.parametrize("before", ["nothing", "good", "damaged"])
def test_a_failing_call_never_leaves_a_bad_entry_nor_loses_a_good_one(tmp_path, monkeypatch, code, before):
    at = 0
    while True:
        at += 1
        root = tmp_path / f"{at}"
        if before != "nothing":
            folder = DiskCache(root, "1.0").publish(KEY, FILES).folder
            if before == "damaged":
                _flip(folder / "kernel.so")
        cache = DiskCache(root, "1.0")
        with monkeypatch.context() as patch, warnings.catch_warnings(record=True) as record:
            warnings.simplefilter("always")
            fault = Fault(patch, CALLS, at, raising(code))
            entry = cache.publish(KEY, FILES)
            assert entry is None or entry.read("kernel.so") == FILES["kernel.so"]
        assert len(told(record)) <= 2
        if entry is None:
            assert told(record), "a publication that failed says so"
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", CacheWarning)
            fresh = DiskCache(root, "1.0")
            found = contents(fresh)
            assert found == FILES if before == "good" else found in (None, FILES)
            assert fresh.publish(KEY, FILES) is not None and contents(fresh) == FILES
        if fault.count < at:
            break
    assert at > 10, "the fault was tried at each call"


def _die(name):
    os._exit(9)


def _publish_and_die(root, at):
    Fault(pytest.MonkeyPatch(), CALLS, at, _die)
    DiskCache(Path(root), "1.0").publish(KEY, FILES)
    os._exit(0)


def test_a_process_killed_at_any_call_leaves_a_whole_entry_or_none(tmp_path):
    fork = multiprocessing.get_context("fork")
    for at in range(1, 100):
        root = tmp_path / f"{at}"
        child = fork.Process(target=_publish_and_die, args=(str(root), at))
        child.start()
        child.join(30)
        cache = DiskCache(root, "1.0")
        with warnings.catch_warnings():
            warnings.simplefilter("error", CacheWarning)  # an interrupted write is no damage
            assert contents(cache) in (None, FILES)
            assert cache.publish(KEY, FILES) is not None and contents(cache) == FILES
        if child.exitcode == 0:
            break
    assert child.exitcode == 0 and at > 10


def _publish_together(root, barrier, queue, number):
    cache = DiskCache(Path(root), "1.0")
    barrier.wait()
    for round in range(20):
        key = f"{round:064d}"
        entry = cache.publish(key, {"kernel.so": bytes([number]) * 50_000, "who": str(number).encode()})
        whole = entry is not None and set(entry.read("kernel.so")) == {int(entry.read("who"))}
        queue.put(whole)


def test_eight_processes_publish_one_key_at_once(tmp_path):
    fork = multiprocessing.get_context("fork")
    barrier, queue = fork.Barrier(8), fork.Queue()
    children = [
        fork.Process(target=_publish_together, args=(str(tmp_path), barrier, queue, number)) for number in range(8)
    ]
    for child in children:
        child.start()
    results = [queue.get(timeout=60) for _ in range(8 * 20)]
    for child in children:
        child.join(30)
        assert child.exitcode == 0
    assert all(results)
    cache = DiskCache(tmp_path, "1.0")
    assert len(cache.keys()) == 20 and staged(cache) == []
    with warnings.catch_warnings():
        warnings.simplefilter("error", CacheWarning)
        assert all(map(cache.load, cache.keys()))


def test_a_root_that_is_a_file_costs_the_cache_not_the_compile(tmp_path):
    (tmp_path / "cache").write_text("in the way")
    cache = DiskCache(tmp_path / "cache", "1.0")
    with warnings.catch_warnings(record=True) as record:
        warnings.simplefilter("always")
        for _ in range(3):
            assert cache.load(KEY) is None
            assert cache.publish(KEY, FILES) is None
    (text,) = told(record)
    assert text == (
        f"the kernel cache {tmp_path / 'cache'} cannot be used (Not a directory); kernels are compiled for this "
        "process only. Set TILE_CACHE_DIR to a folder that can be written, or TILE_DISABLE_CACHE=1 to say that "
        "this is meant"
    )


def test_what_dead_processes_left_is_swept_after_an_hour(cache):
    cache.publish(KEY, FILES)
    old, young = cache.staging / "1-old", cache.staging / "2-young"
    for folder in (old, young):
        folder.mkdir()
        (folder / "kernel.so").write_bytes(b"half")
    os.utime(old, (time.time() - 3700,) * 2)
    DiskCache(cache.root, "1.0").publish("cd" * 32, FILES)
    assert staged(cache) == [young]


def test_a_hint_is_found_and_a_lost_or_broken_one_is_none(cache):
    assert cache.recall("base") is None
    cache.remember("base", KEY)
    assert cache.recall("base") == KEY
    cache.remember("base", "cd" * 32)
    assert cache.recall("base") == "cd" * 32
    (cache.hints / "base").write_bytes(b"../..\xff")
    assert cache.recall("base") is None


def test_a_hint_that_cannot_be_written_is_no_trouble(tmp_path):
    (tmp_path / "cache").write_text("in the way")
    cache = DiskCache(tmp_path / "cache", "1.0")
    cache.remember("base", KEY)
    assert cache.recall("base") is None
