"""What a runtime offers besides compiling, and what is said where it does not."""

import pytest

import tile_core as tile
from tile_core import offers
from tile_core.errors import PluginError
from tile_core.plugin import registry


class Runtime:
    name = "spartan"
    api = (1, 0)


class Generous(Runtime):
    def part(self, name):
        return {"op": lambda function, **given: (function, given)}.get(name)


def test_parts_are_the_runtimes_own(monkeypatch):
    monkeypatch.setattr(registry, "runtime", Generous)
    assert tile.op(3, name="a::b") == (3, {"backward": None, "jvp": None, "vmap": None, "name": "a::b"})
    assert tile.op(backward=1)(3) == (3, {"backward": 1, "jvp": None, "vmap": None, "name": None})
    with pytest.raises(PluginError) as caught:
        tile.autotune(configs=[{}])(3)
    assert caught.value.code == "E-RUNTIME-LACKS" and "spartan has no autotune" in str(caught.value)
    with pytest.raises(PluginError, match="has no AutoTuner"):
        offers.AutoTuner


def test_an_older_runtime_is_named(monkeypatch):
    monkeypatch.setattr(registry, "runtime", Runtime)
    with pytest.raises(PluginError, match="the runtime spartan has no part"):
        tile.op(3)


def test_other_names_are_no_attributes():
    with pytest.raises(AttributeError, match="no attribute 'tune'"):
        offers.tune
    assert set(offers.OFFERED) <= set(tile.__all__)
