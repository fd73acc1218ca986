"""Operands of sparse products: what is kept of a tensor, where, and what is refused."""

import itertools

import numpy as np
import pytest
import torch

from tile_core.errors import ArgumentError
from tile_core.tileop import PLACE_DTYPES, SparseGemm
from tile_runtime.sparse import compress, decompress, randn_semi_sparse

ELEMENTS = ["float16", "bfloat16", "float32", "int8", "uint8", "float8_e4m3fn", "float8_e5m2"]
E_DTYPES = [torch.int8, torch.uint8, torch.int16, torch.uint16, torch.int32, torch.uint32]


@pytest.mark.parametrize("element", ELEMENTS)
@pytest.mark.parametrize("places", E_DTYPES, ids=str)
def test_what_is_compressed_comes_back(element, places):
    torch.manual_seed(0)
    dense = randn_semi_sparse(5, 64, getattr(torch, element))
    kept, e = compress(dense, places)
    group = 2 if element == "float32" else 4
    assert kept.shape == (5, 32) and kept.dtype == dense.dtype
    assert e.shape == (5, 64 // (2 * places.itemsize * group)) and e.dtype == places
    assert torch.equal(decompress(kept, e).float(), dense.float())


def test_the_six_pairs_of_places_have_the_bits_that_the_language_defines():
    pairs = list(itertools.combinations(range(4), 2))
    dense = torch.zeros(len(pairs), 16, dtype=torch.float16)
    for row, (first, second) in enumerate(pairs):
        dense[row, 4 + first], dense[row, 4 + second] = 1.0, 2.0
    kept, e = compress(dense)
    assert [word >> 4 & 15 for word in e[:, 0].tolist()] == [first | second << 2 for first, second in pairs]
    assert kept[:, 2:4].tolist() == [[1.0, 2.0]] * 6
    assert torch.equal(decompress(kept, e), dense)


def test_of_32_bit_elements_one_of_two_is_kept():
    kept, e = compress(torch.tensor([[5.0, 0.0, 0.0, 6.0]]), torch.int8)
    assert kept.tolist() == [[5.0, 6.0]] and e.view(torch.uint8).tolist() == [[0b1110_0100]]


def test_groups_with_fewer_elements_have_places_in_order():
    dense = torch.zeros(5, 16)
    for row in range(4):
        dense[row, row] = row + 1.0
    kept, e = compress(dense.half())
    places = [(word >> shift & 3, word >> shift + 2 & 3) for word in e[:, 0].tolist() for shift in (0, 4, 8, 12)]
    assert all(first < second for first, second in places)
    assert torch.equal(decompress(kept, e), dense.half())


def test_zeros_of_either_sign_are_left_out_and_nan_is_kept():
    dense = torch.tensor([[-0.0, 1.0, float("nan"), -0.0] * 4], dtype=torch.bfloat16)
    kept, e = compress(dense)
    assert kept[0, 0] == 1.0 and kept[0, 1].isnan()
    back = decompress(kept, e)
    assert torch.equal(back.nan_to_num(7.0), dense.nan_to_num(7.0))


def test_any_leading_dimensions_and_strides():
    dense = randn_semi_sparse(6, 32).reshape(2, 3, 32)
    turned = dense.mT.contiguous().mT
    kept, e = compress(turned)
    assert kept.shape == (2, 3, 16) and e.shape == (2, 3, 2)
    assert torch.equal(decompress(kept.mT.contiguous().mT, e.mT.contiguous().mT), dense)
    kept, e = compress(torch.zeros(0, 32, dtype=torch.int8))
    assert decompress(kept, e).shape == (0, 32)


@pytest.mark.parametrize("element", ["float16", "float32", "int8"])
def test_half_the_elements_are_left_at_random(element):
    torch.manual_seed(0)
    dense = randn_semi_sparse(64, 64, getattr(torch, element))
    group = 2 if element == "float32" else 4
    assert int((dense.reshape(64, -1, group) != 0).sum(-1).max()) == group // 2
    assert bool(((dense.reshape(-1, group) != 0).sum(0) > 300).all())


def test_the_types_of_places_are_those_of_the_language():
    assert [str(dtype).removeprefix("torch.") for dtype in E_DTYPES] == list(PLACE_DTYPES)
    known = {name for row in SparseGemm.dtypes for name in row[0]}
    assert {"float16", "bfloat16", "float32", "int8", "uint8", "float8_e4m3fn"} <= known


def test_a_tensor_with_too_many_elements_is_refused_with_the_place():
    dense = torch.zeros(3, 32, dtype=torch.float16)
    dense[1, 12:15] = torch.tensor([1.0, 2.0, 3.0])
    with pytest.raises(ArgumentError) as error:
        compress(dense)
    assert str(error.value).splitlines() == [
        "error[E-SPARSE-PATTERN]: the tensor is not 2:4 sparse along its last dimension",
        "   A[1, 12:16] = [1.0, 2.0, 3.0, 0.0]",
        "   1 of 24 groups of 4 have more than 2 elements that are not 0",
        "  help: set all but 2 of each 4 neighbours to 0",
    ]
    with pytest.raises(ArgumentError, match="not 1:2 sparse"):
        compress(torch.ones(1, 8))


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: compress(torch.zeros(2, 24).half()), "must be a multiple of 16, got [2, 24]"),
        (lambda: compress(torch.zeros(()).half()), "must be a multiple of 16, got []"),
        (lambda: compress(torch.zeros(2, 16).double()), "no operands of torch.float64"),
        (lambda: compress(torch.zeros(2, 16).half(), torch.int64), "E cannot be torch.int64"),
        (
            lambda: decompress(torch.zeros(2, 16).half(), torch.zeros(2, 1).short()),
            "E does not say where the elements of A_sparse lie: [2, 1] for [2, 16]",
        ),
    ],
)
def test_other_operands_are_refused(call, text):
    with pytest.raises(ArgumentError) as error:
        call()
    assert text in str(error.value) and error.value.code == "E-SPARSE-OPERAND"


@pytest.mark.gpu
def test_on_a_gpu_it_is_the_same():
    dense = randn_semi_sparse(64, 128, device="cuda")
    kept, e = compress(dense)
    here = compress(dense.cpu())
    assert torch.equal(kept.cpu(), here[0]) and torch.equal(e.cpu(), here[1])
    assert torch.equal(decompress(kept, e), dense)


def test_the_language_reads_what_compress_writes():
    """Against numpy that knows the definition only."""
    torch.manual_seed(1)
    dense = randn_semi_sparse(4, 32, torch.int8)
    kept, e = compress(dense, torch.int32)
    rebuilt = np.zeros((4, 32), np.int8)
    for row in range(4):
        for group in range(8):
            bits = int(e[row, 0]) >> 4 * group & 15
            rebuilt[row, 4 * group + (bits & 3)] = kept[row, 2 * group]
            rebuilt[row, 4 * group + (bits >> 2)] = kept[row, 2 * group + 1]
    assert np.array_equal(rebuilt, dense.numpy())
