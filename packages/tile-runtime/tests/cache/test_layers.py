"""Layers of the cache, whose folders are trusted, and what becomes of a damaged shared entry."""

import os
import stat
import warnings

import pytest

from tile_core.errors import CacheWarning
from tile_runtime.cache import DiskCache, Layers
from tile_runtime.cache.entry import distrust

KEY, OTHER = "ab" * 32, "cd" * 32
FILES = {"host.c": b"int main;\n", "kernel.so": bytes(range(256)) * 4}


def told(record):
    return [str(w.message) for w in record if issubclass(w.category, CacheWarning)]


@pytest.fixture
def layers(tmp_path):
    DiskCache(tmp_path / "team", "1.0").publish(KEY, FILES)
    shared = DiskCache(tmp_path / "team", "1.0", read_only=True)
    return Layers(DiskCache(tmp_path / "mine", "1.0"), [shared])


def test_what_the_shared_layer_has_is_used_where_it_lies(layers):
    entry = layers.load(KEY)
    assert entry.folder.parent == layers.shared[0].kernels
    assert layers.writable.keys() == ()
    assert layers.keys() == (KEY,)


def test_what_is_new_goes_into_the_first_layer_and_is_found_there_first(layers):
    layers.publish(OTHER, FILES)
    layers.publish(KEY, FILES)
    assert layers.writable.keys() == (KEY, OTHER) and layers.shared[0].keys() == (KEY,)
    assert layers.load(KEY).folder.parent == layers.writable.kernels


def test_clearing_and_discarding_leave_the_shared_layer_alone(layers):
    layers.publish(KEY, FILES)
    layers.discard(KEY)
    layers.clear()
    assert layers.writable.keys() == () and layers.shared[0].keys() == (KEY,)
    assert layers.load(KEY) is not None


def test_a_damaged_shared_entry_is_passed_over_told_once_and_stays(layers):
    path = layers.shared[0].kernels / KEY / "kernel.so"
    path.write_bytes(b"x" + path.read_bytes()[1:])
    with warnings.catch_warnings(record=True) as record:
        warnings.simplefilter("always")
        assert layers.load(KEY) is None
        assert layers.load(KEY) is None
    (text,) = told(record)
    assert text == (
        f"cache entry {KEY[:16]}… of the shared layer {layers.shared[0].root} is damaged (the checksum of kernel.so "
        "differs) and passed over"
    )
    assert path.exists()
    assert layers.publish(KEY, FILES) is not None and layers.load(KEY) is not None


def test_a_read_only_layer_is_never_written(tmp_path):
    shared = DiskCache(tmp_path / "team", "1.0", read_only=True)
    assert shared.publish(KEY, FILES) is None
    shared.remember("base", KEY)
    assert not (tmp_path / "team").exists()


def test_hints_are_read_from_all_layers(layers):
    DiskCache(layers.shared[0].root, "1.0").remember("base", KEY)
    assert layers.recall("base") == KEY
    layers.remember("base", OTHER)
    assert layers.recall("base") == OTHER


@pytest.mark.parametrize("place", ["root", "version", "namespace", "kernels"])
def test_nothing_is_loaded_from_a_folder_that_everybody_may_write_to(tmp_path, place):
    cache = DiskCache(tmp_path / "cache", "1.0")
    cache.publish(KEY, FILES)
    folders = {
        "root": cache.root,
        "version": cache.root / "1.0",
        "namespace": cache.namespace,
        "kernels": cache.kernels,
    }
    folders[place].chmod(0o777)
    cache = DiskCache(tmp_path / "cache", "1.0")
    with warnings.catch_warnings(record=True) as record:
        warnings.simplefilter("always")
        assert cache.load(KEY) is None
        assert cache.publish(OTHER, FILES) is None
        assert cache.recall("base") is None
    (text,) = told(record)
    assert text == (
        f"nothing is loaded from the kernel cache {cache.root}: everybody may write to {folders[place]}, so another "
        "user could have put code there. Make it yours alone (chown, chmod go-w), or set TILE_CACHE_DIR to another "
        "folder; a folder that others fill for you is named in TILE_CACHE_SHARED_DIR"
    )
    assert (cache.kernels / KEY).exists()


def test_a_folder_of_another_user_is_refused_unless_it_was_named_as_shared(tmp_path, monkeypatch):
    cache = DiskCache(tmp_path / "cache", "1.0")
    cache.publish(KEY, FILES)
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    real = os.stat

    def owned_by_another(path, *args, **kwargs):
        status = list(real(path, *args, **kwargs))
        status[stat.ST_UID] = 777
        return os.stat_result(status)

    monkeypatch.setattr(os, "stat", owned_by_another)
    assert distrust((cache.root,)) == f"{cache.root} belongs to another user (uid 777)"
    with pytest.warns(CacheWarning, match="belongs to another user"):
        assert DiskCache(cache.root, "1.0").load(KEY) is None
    assert DiskCache(cache.root, "1.0", read_only=True).load(KEY) is not None


def test_folders_that_are_made_are_for_their_owner_to_write(tmp_path):
    before = os.umask(0)
    try:
        cache = DiskCache(tmp_path / "deep" / "cache", "1.0")
        folder = cache.publish(KEY, FILES).folder
    finally:
        os.umask(before)
    for path in (cache.root.parent, cache.root, cache.namespace, cache.kernels):
        assert stat.S_IMODE(path.stat().st_mode) == 0o755
    assert stat.S_IMODE((folder / "kernel.so").stat().st_mode) == 0o644


def test_a_manifest_that_names_a_file_outside_is_damage(tmp_path):
    cache = DiskCache(tmp_path / "cache", "1.0")
    folder = cache.publish(KEY, FILES).folder
    manifest = folder / "manifest.json"
    manifest.write_text(manifest.read_text().replace('"host.c"', '"../../host.c"'))
    (cache.namespace / "host.c").write_bytes(FILES["host.c"])
    with pytest.warns(CacheWarning, match="which is no file of it"):
        assert cache.load(KEY) is None


def test_use_is_noted_by_the_day(tmp_path):
    cache = DiskCache(tmp_path / "cache", "1.0")
    folder = cache.publish(KEY, FILES).folder
    os.utime(folder, (0, 0))
    cache.load(KEY)
    noted = folder.stat().st_mtime
    assert noted > 0
    os.utime(folder, (noted - 3600, noted - 3600))
    cache.load(KEY)
    assert folder.stat().st_mtime == noted - 3600
