"""Pass options of the peer: all known, unknown ones refused."""

from __future__ import annotations

import pytest

from tile_core.errors import OptionError
from tile_core.transform import Options, declared_options
from tile_core.transform.peer_options import INERT_KEYS, PEER_KEYS


def test_every_key_is_declared_once_with_a_meaning():
    declared = declared_options()
    assert len(PEER_KEYS) == len(set(PEER_KEYS)) >= 54
    for key in PEER_KEYS:
        assert declared[key].doc
    assert "tl.disable_buffer_init_check" not in INERT_KEYS and "tl.disable_wgmma" in INERT_KEYS


def test_known_keys_that_do_nothing_are_accepted():
    options = Options({"tl.disable_wgmma": True, "tl.ptxas_register_usage_level": 10, "tirx.Simplify": {}})
    assert options["tl.disable_wgmma"] is True and options["tl.config_index_bitwidth"] == 32


@pytest.mark.parametrize(
    ("given", "text"),
    [
        (
            {"tl.config_index_bitwidth": 16},
            """\
error[E-OPTION-VALUE]: pass option tl.config_index_bitwidth does not take 16
   allowed: 32, 64
  help: least width of indices in bits""",
        ),
        (
            {"tl.layout_cost_model": "fast"},
            """\
error[E-OPTION-VALUE]: pass option tl.layout_cost_model does not take 'fast'
   allowed: register-count, io-aware
  help: what layout inference minimises""",
        ),
    ],
)
def test_error_text(given, text):
    with pytest.raises(OptionError) as caught:
        Options(given)
    assert str(caught.value) == text


def test_an_unknown_key_names_its_neighbours():
    with pytest.raises(OptionError) as caught:
        Options({"tl.disable_wgmm": True})
    first, second, last = str(caught.value).splitlines()
    assert first == "error[E-OPTION-UNKNOWN]: unknown pass option 'tl.disable_wgmm'"
    assert second.startswith("   nearest known: tl.disable_wgmma")
    assert last == "  help: remove it or correct its name; docs/reference/options.md lists all"
