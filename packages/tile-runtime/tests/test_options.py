"""Options of jit and compile: unknown names, wrong kinds, flags."""

from pathlib import Path

import pytest

from tile_core.errors import OptionError
from tile_runtime.options import CompileOptions


def test_what_is_left_out_or_none_has_defaults():
    assert CompileOptions.read({"target": None, "out_idx": None}) == CompileOptions()


def test_flags_come_as_text_or_list():
    assert CompileOptions.read({"compile_flags": "-O1 '-DX=a b'"}).compile_flags == ("-O1", "-DX=a b")
    assert CompileOptions.read({"compile_flags": ["-O1"]}).compile_flags == ("-O1",)
    assert CompileOptions.read({"debug_root_path": "/x"}).debug_root_path == Path("/x")


@pytest.mark.parametrize(
    ("given", "text"),
    [
        (
            {"pass_config": {}},
            "error[E-COMPILE-OPTION]: there is no argument 'pass_config'\n"
            "   known: out_idx, target, execution_backend, pass_configs, compile_flags, verbose, debug_root_path\n"
            "  help: did you mean pass_configs?",
        ),
        (
            {"out_idx": "2"},
            "error[E-COMPILE-OPTION]: out_idx='2' is of the wrong kind\n   allowed: an int, or a list of ints",
        ),
        (
            {"out_idx": True},
            "error[E-COMPILE-OPTION]: out_idx=True is of the wrong kind\n   allowed: an int, or a list of ints",
        ),
        ({"verbose": 1}, "error[E-COMPILE-OPTION]: verbose=1 is of the wrong kind\n   allowed: True or False"),
        (
            {"pass_configs": ["x"]},
            "error[E-COMPILE-OPTION]: pass_configs=['x'] is of the wrong kind\n   allowed: a dict of pass options",
        ),
        (
            {"execution_backend": 3},
            "error[E-COMPILE-OPTION]: execution_backend=3 is of the wrong kind\n   allowed: a name, or 'auto'",
        ),
    ],
)
def test_a_wrong_option_says_what_is_allowed(given, text):
    with pytest.raises(OptionError) as caught:
        CompileOptions.read(given)
    assert str(caught.value) == text
