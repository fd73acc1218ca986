"""The device function table: headers are current, and each row compiles in both bodies and says what it does."""

from __future__ import annotations

import pytest

from tile_core.errors import InternalError
from tile_core.ir import (
    Call,
    Collective,
    CommitGroup,
    Completion,
    IntImm,
    OperandEffect,
    Rendezvous,
    WaitGroup,
    find_intrinsic,
)
from tile_cuda.device import DeviceFunction, device_functions, emulation_include_dir, find_device_function, include_dir
from tile_cuda.device.headers import HEADER_NAME, render
from tile_cuda.toolchain import compile_device

SCALARS = ("int8_t", "uint8_t", "int32_t", "uint32_t", "int64_t", "uint64_t", "fp16", "bf16", "float", "double")
INTEGERS = tuple(t for t in SCALARS if "int" in t)

# What calls of each row look like; {T} is each of the types. `p` points to memory of type T, `v` is a value of it.
CALLS: dict[str, tuple[str, tuple[str, ...]]] = {
    "sync_threads": ("sync_threads(TILE_SYNC(0));", ()),
    "sync_grid": ("tile::sync_grid(TILE_SYNC(0));", ()),
    "sync_warp": ("sync_warp(TILE_SYNC(0), 0xffu);", ()),
    "bar_sync": ("bar_sync(TILE_SYNC(0), 1, 64);", ()),
    "bar_arrive": ("bar_arrive(TILE_SYNC(0), 1, 64);", ()),
    "cp_async": (
        "cp_async<4>(shared, p); cp_async<8>(shared, p, true); cp_async<16>(shared, p, v != T(0));",
        ("float",),
    ),
    "cp_async_commit": ("cp_async_commit();", ()),
    "cp_async_wait": ("cp_async_wait<3>(TILE_SYNC(0));", ()),
    "ldmatrix": (
        "ldmatrix<1, false>(p, shared); ldmatrix<2, true>(p, shared); ldmatrix<4, true>(p, shared);",
        ("fp16",),
    ),
    "atomic_cas": ("p[1] = atomic_cas(p, v, p[2]);", tuple(t for t in SCALARS if "int8" not in t)),
    "atomic_combine": ("p[1] = atomic_combine<op_prod>(p, v);", SCALARS),
    "atomic_add_vec": (
        "atomic_add_vec(p, load<T, 4>(p)); atomic_add_vec(p, load<T, 2>(p));",
        ("fp16", "bf16", "float"),
    ),
    "atomic_load": ("p[1] = atomic_load(p);", SCALARS),
    "atomic_store": ("atomic_store(p, v);", SCALARS),
    "sync_threads_count": ("p[0] = T(sync_threads_count(TILE_SYNC(0), v != T(0)));", ("float",)),
    "sync_threads_and": ("p[0] = T(sync_threads_and(TILE_SYNC(0), v != T(0)));", ("float",)),
    "sync_threads_or": ("p[0] = T(sync_threads_or(TILE_SYNC(0), v != T(0)));", ("float",)),
    "match_all": ("p[0] = T(float(match_all(v)));", SCALARS),
    "match_any": ("p[0] = T(float(match_any(v)));", SCALARS),
    "ballot": ("p[0] = T(float(tile::ballot(v != T(0))));", ("float",)),
    "any_sync": ("p[0] = T(float(any_sync(v != T(0))));", ("float",)),
    "all_sync": ("p[0] = T(float(all_sync(v != T(0))));", ("float",)),
    "activemask": ("p[0] = T(activemask());", ("float",)),
    **{
        name: (f"p[0] = T(float({name}{'<true>' if 'nibbles' in name else ''}(uint32_t(float(v)))));", ("float",))
        for name in ("nibbles_fp16", "nibbles_bf16", "e2m1_fp16", "e2m1_bf16", "e4m3_fp16", "e5m2_fp16")
    },
    "fast_div": ("p[0] = fast_div(v, p[1]);", ("float",)),
}
PREFIXES: dict[str, tuple[str, tuple[str, ...]]] = {
    "fence_": ("{name}();", ()),
    "mma_sp_": ("{name}<0>((C*)p, (const A*)p, (const B*)p, (const uint32_t*)p);", ("float",)),
    "mma_": ("{name}((C*)p, (const A*)p, (const B*)p);", ("float",)),
    "shfl": ("p[0] = {name}(v, 1); p[1] = {name}(v, 1, 8, 0xffu);", SCALARS),
    "warp_": ("p[0] = {name}(v); p[1] = {name}(v, 8);", SCALARS),
    "block_reduce_": ("p[0] = {name}(TILE_SYNC(0), v, (T*)shared);", SCALARS),
    "atomic_": ("p[1] = {name}(p, v);", SCALARS),
    "fast_": ("p[0] = {name}(v);", ("float",)),
}


def calls(row: DeviceFunction) -> tuple[str, tuple[str, ...]]:
    if row.name in CALLS:
        return CALLS[row.name]
    text, types = next(found for prefix, found in PREFIXES.items() if row.name.startswith(prefix))
    if row.name.startswith("mma_"):
        parameters = row.signature.partition("(")[2].replace("const ", "").rstrip(")").split(", ")
        for letter, parameter in zip("CAB", parameters):
            text = text.replace(f"{letter}*", f"{parameter.partition('*')[0]}*")
    if "bit" in row.name or row.name.endswith(("_and", "_or", "_xor")):
        types = tuple(t for t in types if t in INTEGERS) if row.name != "shfl_xor" else types
    return text.replace("{name}", row.name), types


def unit(rows: list[DeviceFunction]) -> tuple[str, list[str]]:
    """A translation unit with a kernel for each row and type."""
    text, names = ['#include "tile_cuda.h"', "using namespace tile;"], []
    for row in rows:
        call, types = calls(row)
        for ctype in types or ("float",):
            name = f"k_{row.name}_{ctype}"
            names.append(name)
            text.append(
                f'extern "C" __global__ void {name}({ctype}* p) {{ typedef {ctype} T; '
                f"TILE_SHARED(shared, 1024); T v = p[threadIdx.x]; (void)shared; (void)v; {call} }}"
            )
    # `tile::` names that g++ would also find through the type of TILE_SYNC.
    body = "\n".join(text)
    for name in ("sync_threads", "sync_warp", "bar_sync", "bar_arrive", "cp_async_wait"):
        body = body.replace(f" {name}(TILE", f" tile::{name}(TILE").replace(
            f" {name}<3>(TILE", f" tile::{name}<3>(TILE"
        )
    return body + "\n", names


@pytest.mark.parametrize("emulate", [False, True], ids=["device", "emulation"])
def test_the_packaged_headers_are_what_the_table_says(emulate):
    folder = emulation_include_dir() if emulate else include_dir()
    current = (folder / HEADER_NAME).read_text(encoding="utf-8") == render(emulate)
    assert current, "run: python -m tile_cuda.device"


@pytest.mark.layer("nvrtc")
@pytest.mark.parametrize("minimum", sorted({row.minimum for row in device_functions()}))
def test_each_row_compiles_for_its_oldest_architecture(minimum):
    source, _ = unit([row for row in device_functions() if row.minimum == minimum])
    assert compile_device(source, f"sm_{minimum}", name=f"rows_{minimum}").cubin[:4] == b"\x7fELF"


@pytest.mark.layer("nvrtc")
def test_each_row_compiles_for_the_newest_architecture():
    source, _ = unit(list(device_functions()))
    assert compile_device(source, "sm_90a", name="rows").cubin[:4] == b"\x7fELF"


@pytest.mark.layer("emulation")
def test_each_row_compiles_for_the_emulator(emulated):
    source, names = unit(list(device_functions()))
    assert emulated(source, names).library.handle is not None


def test_synchronisations_say_who_meets():
    assert find_intrinsic("cuda.sync_threads").effects == (Rendezvous("block"),)
    assert find_intrinsic("sync_threads").effects == (Rendezvous("block"),)
    assert find_intrinsic("cuda.sync_warp").effects == (Rendezvous("warp", count=0),)
    assert find_intrinsic("cuda.bar_sync").effects == (Rendezvous("named", 0, 1),)
    assert find_intrinsic("cuda.bar_arrive").effects == (Rendezvous("named", 0, 1, waits=False),)
    assert all(find_intrinsic(f"cuda.{n}").effect == "sync" for n in ("sync_threads", "bar_sync", "block_reduce_sum"))


def test_asynchronous_copies_say_how_their_end_is_known():
    done = Completion("group", queue="cp.async")
    write, read = find_intrinsic("cuda.cp_async").effects
    assert write == OperandEffect(0, "write", "async", done) and read == OperandEffect(1, "read", "async", done)
    assert find_intrinsic("cuda.cp_async_commit").effects == (CommitGroup("cp.async"),)
    assert find_intrinsic("cuda.cp_async_wait").effects == (WaitGroup("cp.async", 0),)


def test_matrix_instructions_say_what_they_read_and_write():
    for name, read in (("mma", (1, 2)), ("mma_sp", (1, 2, 3))):
        effects = find_intrinsic(f"cuda.{name}").effects
        operands = [(e.argument, e.kind) for e in effects if isinstance(e, OperandEffect)]
        assert operands == [(0, "accumulate"), *((argument, "read") for argument in read)]
        assert Collective("warp") in effects
    assert Collective("warp") in find_intrinsic("cuda.ldmatrix").effects


def test_every_row_but_pure_ones_declares_effects_or_is_a_fence():
    for row in device_functions():
        declared = find_intrinsic(f"cuda.{row.intrinsic}").effects
        assert declared or row.pure or row.name.startswith("fence_") or row.name == "activemask", row.name


def test_a_call_finds_the_row_that_fits_its_annotations():
    annotations = (("shape", (16, 8, 16)), ("a", "bfloat16"), ("b", "bfloat16"), ("c", "float32"))
    call = Call("cuda.mma", (IntImm(0),) * 3, annotations=annotations)
    assert find_device_function(call).name == "mma_m16n8k16_bf16_bf16_f32"


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (
            Call("cuda.mma", (IntImm(0),) * 3, annotations=(("shape", (16, 8, 64)), ("a", "int4"))),
            "no device function for cuda.mma (registered)",
        ),
        (Call("cuda.nothing", ()), "no device function for cuda.nothing (unknown)"),
        (Call("cuda.bar_sync", (IntImm(1),)), "cuda.bar_sync takes 2 arguments, found 1"),
    ],
)
def test_a_call_without_a_row_is_named(call, text):
    with pytest.raises(InternalError) as caught:
        find_device_function(call)
    assert caught.value.summary == text
