"""FlattenBuffer: one index for each access, in a type that holds it."""

import pytest

from tile_core.errors import OptionError
from tile_core.ir import AccessPtr, BufferLoad, BufferStore, walk
from tile_core.transform import FlattenBuffer, Options


def accesses(function):
    return [n for n in walk(function.body) if isinstance(n, (BufferLoad, BufferStore, AccessPtr))]


def test_on_chip_buffers_become_one_dimensional(check_pass):
    check_pass(
        FlattenBuffer,
        """
        @T.prim_func
        def main(A: T.Buffer((16,), T.float32)):
            with T.Kernel(1) as bx:
                S = T.alloc_buffer((4, 4), T.float32, scope="shared")
                for i in T.serial(4):
                    for j in T.serial(4):
                        S[i, j] = T.cast(i * 4 + j, T.float32)
                for k in T.serial(16):
                    A[k] = S[k // 4, k % 4]
        """,
        None,
    )


def test_every_index_is_one_number_and_parameters_keep_their_shape(apply):
    changed = apply(
        """
        @T.prim_func
        def main(A: T.Buffer((M, N), T.float32), B: T.Buffer((4, 8), T.float32)):
            M = T.size_var(T.int32)
            N = T.size_var(T.int32)
            with T.Kernel(4) as bx:
                for j in T.serial(8):
                    B[bx, j] = A[bx, j]
        """,
        FlattenBuffer,
    )
    assert [p.ndim for p in changed.params] == [2, 2]
    store, load = accesses(changed)
    assert repr(store.indices[0]) == "bx * 8 + j"
    assert store.indices[0].dtype == "int32"
    assert load.indices[0].dtype == "int64"
    assert load.buffer.data is changed.params[0]


@pytest.mark.parametrize(("rows", "dtype"), [(2**15 - 1, "int32"), (2**15, "int64")], ids=["largest int32", "one more"])
def test_the_index_type_changes_where_32_bits_end(apply, rows, dtype):
    changed = apply(
        f"""
        @T.prim_func
        def main(A: T.Buffer(({rows}, 65536), T.int8)):
            with T.Kernel({rows}) as bx:
                A[bx, 5] = 1
        """,
        FlattenBuffer,
    )
    [store] = accesses(changed)
    assert store.indices[0].dtype == dtype


def test_strides_take_part(apply):
    changed = apply(
        """
        @T.prim_func
        def main(A: T.Buffer((4, 8), T.float32, strides=(100, 2))):
            with T.Kernel(4) as bx:
                for j in T.serial(8):
                    A[bx, j] = 1.0
        """,
        FlattenBuffer,
    )
    [store] = accesses(changed)
    assert repr(store.indices[0]) in ("bx * 100 + j * 2",)


def test_the_option_widens_every_index(apply):
    text = """
        @T.prim_func
        def main(A: T.Buffer((4, 8), T.float32)):
            with T.Kernel(4) as bx:
                A[bx, 3] = 1.0
    """
    [store] = accesses(apply(text, FlattenBuffer, options=Options({"tl.config_index_bitwidth": 64})))
    assert store.indices[0].dtype == "int64"
    with pytest.raises(OptionError, match="allowed: 32, 64"):
        Options({"tl.config_index_bitwidth": 16})
