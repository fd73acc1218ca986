"""The remote layer: read once a machine, checked, offered what is new, never in the way."""

import warnings

import fsspec
import pytest

from tile_core.errors import CacheWarning, SettingError
from tile_core.settings import settings
from tile_runtime.cache import DiskCache, Layers
from tile_runtime.cache import remote as remote_module
from tile_runtime.cache.remote import FsspecLayer, remote_layer

KEY, OTHER = "ab" * 32, "cd" * 32
FILES = {"kernel.json": b"{}", "kernel.so": bytes(range(256)) * 4}


@pytest.fixture(params=["memory", "file"])
def address(request, tmp_path):
    if request.param == "file":
        yield f"file://{tmp_path}/store"
        return
    fsspec.filesystem("memory").store.clear()
    yield "memory://store"
    fsspec.filesystem("memory").store.clear()


def layers(tmp_path, address, name):
    return Layers(DiskCache(tmp_path / name, "1.0"), remote=FsspecLayer(address, "1.0"))


def path_of(layer, name):
    return f"{layer._root}/{KEY}/{name}"


def test_what_one_machine_compiles_another_finds_and_keeps(tmp_path, address):
    assert layers(tmp_path, address, "one").load(KEY) is None
    layers(tmp_path, address, "one").publish(KEY, FILES)
    other = layers(tmp_path, address, "two")
    entry = other.load(KEY)
    assert {name: entry.read(name) for name in entry.files} == FILES
    assert other.writable.keys() == (KEY,)
    other.remote = None
    assert other.load(KEY) is not None


def test_a_store_that_is_only_read_is_offered_nothing(tmp_path, address):
    layer = FsspecLayer(f"read:{address}", "1.0")
    layer.offer(KEY, FILES)
    assert FsspecLayer(address, "1.0").fetch(KEY) is None
    FsspecLayer(address, "1.0").offer(KEY, FILES)
    assert layer.fetch(KEY) == FILES


def test_the_first_publisher_wins_and_versions_are_apart(address):
    layer = FsspecLayer(address, "1.0")
    layer.offer(KEY, FILES)
    layer.offer(KEY, {"kernel.so": b"other"})
    assert layer.fetch(KEY) == FILES
    assert FsspecLayer(address, "1.1").fetch(KEY) is None


@pytest.mark.parametrize("damage", ["changed", "short", "missing", "manifest", "names"])
def test_what_does_not_fit_its_manifest_is_passed_over_and_told_once(tmp_path, address, damage):
    layer = FsspecLayer(address, "1.0")
    layer.offer(KEY, FILES)
    files = layer._files
    if damage == "changed":
        files.pipe_file(path_of(layer, "kernel.so"), b"x" * len(FILES["kernel.so"]))
    elif damage == "short":
        files.pipe_file(path_of(layer, "kernel.so"), b"x")
    elif damage == "missing":
        files.rm_file(path_of(layer, "kernel.so"))
    else:
        text = files.cat_file(path_of(layer, "manifest.json"))
        changed = text[:30] if damage == "manifest" else text.replace(b'"kernel.so"', b'"../kernel.so"')
        files.pipe_file(path_of(layer, "manifest.json"), changed)
    with warnings.catch_warnings(record=True) as record:
        warnings.simplefilter("always")
        assert layer.fetch(KEY) is None
        assert layer.fetch(KEY) is None
        assert layers(tmp_path, address, "one").load(OTHER) is None
    (text,) = [str(w.message) for w in record if issubclass(w.category, CacheWarning)]
    assert text.startswith(f"the remote cache {address}") and text.endswith("; it is passed over")


def test_a_store_that_cannot_be_reached_costs_the_layer_only(tmp_path, address, monkeypatch):
    both = layers(tmp_path, address, "one")

    def fail(*args, **kwargs):
        raise ConnectionError("no route to host")

    for name in ("cat_file", "pipe_file", "exists"):
        monkeypatch.setattr(both.remote._files, name, fail)
    with pytest.warns(CacheWarning, match=r"cannot be read \(ConnectionError: no route to host\)"):
        assert both.load(KEY) is None
    assert both.publish(KEY, FILES) is not None and both.load(KEY) is not None


def test_the_setting_makes_the_layer(tmp_path, address):
    from tile_runtime.compiler import disk_cache

    with settings.scope(cache_dir=tmp_path / "a", cache_shared_dir=(), cache_remote=address):
        disk_cache().publish(KEY, FILES)
    with settings.scope(cache_dir=tmp_path / "b", cache_shared_dir=(), cache_remote=address):
        assert disk_cache().load(KEY).read("kernel.so") == FILES["kernel.so"]
    with settings.scope(cache_dir=tmp_path / "c", cache_shared_dir=(), cache_remote=None):
        assert disk_cache().load(KEY) is None


def test_an_address_that_fsspec_does_not_know_and_a_missing_fsspec_are_typed(monkeypatch):
    assert remote_layer(None, "1.0") is None
    with pytest.raises(SettingError, match="E-CACHE-REMOTE"):
        remote_layer("nonsense://x", "1.0")
    monkeypatch.setattr(remote_module.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(SettingError, match="needs fsspec"):
        remote_layer("memory://x", "1.0")
