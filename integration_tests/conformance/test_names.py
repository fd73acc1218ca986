"""Every name of the language works where the page of names says, and every missing one says what to use instead."""

import warnings

import numpy as np
import pytest
import torch

import tile_core as tile
import tile_core.language as T
from integration_tests.agreement.harness import as_tensor
from tile_core.errors import TileError
from tile_core.interpreter import interpret
from tile_core.ir import Buffer
from tile_core.language.absent import ABSENT
from tile_core.language.names import LanguageNameError
from tile_core.testing.compare import assert_close, to_numpy
from tile_core.testing.passes import random_arguments
from tools.make_names import has, subjects
from tools.name_probes import PROBES, probe

TARGETS = {"cpu": "cpu", "cuda": "cuda -arch=sm_80"}
SIZES = {"n": 50}


def given(function):
    """Arguments, and what addresses among them point to."""
    memory = np.arange(64, dtype="float32")
    arguments = random_arguments(function, 0, SIZES)
    for place, param in enumerate(function.params):
        if not isinstance(param, Buffer):
            arguments[place] = memory.ctypes.data
        elif param.dtype.bits == 4:
            arguments[place] = np.arange(32, dtype="uint8")
    return arguments, memory


def tensor(array):
    """A tensor of the array's values; bytes where torch lacks the type."""
    name = array.dtype.name
    if name.startswith(("float8", "float6", "float4")):
        held = torch.from_numpy(array.view(np.uint8).copy())
        return held.view(getattr(torch, name)) if hasattr(torch, name) else held
    return as_tensor(array)


@pytest.mark.parametrize("name", PROBES)
def test_a_name_works_where_the_page_says(name):
    function, where = probe(name), PROBES[name].where
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if "interpreter" in where:
            interpret(function, *given(function)[0])
        for place, target in TARGETS.items():
            if place in where:
                tile.lower(function, target=target)
            else:
                with pytest.raises(TileError):
                    tile.lower(function, target=target)


# Every fifth: each name has tests of its own besides, and each costs a compilation.
BOTH = [n for n, p in PROBES.items() if {"interpreter", "cpu"} <= set(p.where)][::5]


@pytest.mark.slow
@pytest.mark.parametrize("name", BOTH)
def test_a_name_means_on_the_cpu_what_the_interpreter_says(name):
    function = probe(name)
    interpreted, _memory = given(function)
    tensors = [tensor(a) if isinstance(a, np.ndarray) else a for a in interpreted]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        interpret(function, *interpreted)
        kernel = tile.compile(function, target="cpu")
        returned = kernel(*(t for place, t in enumerate(tensors) if place not in kernel.out_idx))
    for place in kernel.out_idx:
        tensors[place] = returned
    for param, ours, wanted in zip(function.params, tensors, interpreted):
        if not isinstance(param, Buffer):
            continue
        if ours.dtype == torch.uint8 and wanted.dtype != np.uint8:
            assert (ours.numpy() == wanted.view(np.uint8)).all(), f"{name}: {param.name}"
            continue
        assert_close(to_numpy(ours), wanted, param.dtype.name, reduction=64, scale=4.0, label=f"{name}: {param.name}")


@pytest.mark.parametrize("name", ABSENT)
def test_a_missing_name_says_what_it_belongs_to(name):
    with pytest.raises(LanguageNameError) as caught:
        getattr(T, name)
    assert caught.value.code == "E-LANGUAGE-NAME"
    assert "it belongs to" in str(caught.value)
    assert caught.value.help


def test_a_name_is_supported_or_absent():
    names = {name for row in subjects().values() for name in row}
    assert {n for n in names if not has(n)} == set(ABSENT)


def test_every_supported_name_has_a_probe():
    supported = [n for row in subjects().values() for n in row if has(n)]
    assert [n for n in supported if n not in PROBES] == []
