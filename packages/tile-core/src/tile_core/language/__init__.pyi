# Written by tools/make_stubs.py; change the modules, not this file.
# ruff: noqa: I001
from typing import Any

from ..dtypes import DType
from .values import Broadcast as Broadcast
from .tensor import Buffer as Buffer
from .kernel import CUDASourceCodeKernel as CUDASourceCodeKernel
from .values import Cast as Cast
from .statements import Else as Else
from ..layout import Fragment as Fragment
from .tensor import FragmentBuffer as FragmentBuffer
from .gemm import GemmWarpPolicy as GemmWarpPolicy
from .statements import If as If
from .kernel import Kernel as Kernel
from ..layout import Layout as Layout
from .tensor import LocalBuffer as LocalBuffer
from .loop import Parallel as Parallel
from .loop import Persistent as Persistent
from .meta import PersistentTileScheduler as PersistentTileScheduler
from .loop import Pipelined as Pipelined
from .values import Ramp as Ramp
from ..frontend import Ref as Ref
from .values import Select as Select
from .loop import Serial as Serial
from .tensor import SharedBuffer as SharedBuffer
from .vectors import Shuffle as Shuffle
from .tensor import StridedTensor as StridedTensor
from .tensor import Tensor as Tensor
from .statements import Then as Then
from .loop import Unroll as Unroll
from .loop import Vectorized as Vectorized
from .loop import While as While
from .fastmath import __cos as __cos
from .fastmath import __exp as __exp
from .fastmath import __exp10 as __exp10
from .fastmath import __ffs as __ffs
from .fastmath import __fns as __fns
from .words import __ldg as __ldg
from .fastmath import __log as __log
from .fastmath import __log10 as __log10
from .fastmath import __log2 as __log2
from .fastmath import __sin as __sin
from .fastmath import __tan as __tan
from .math import abs as abs
from .vectors import abs2 as abs2
from .extern import access_ptr as access_ptr
from .math import acos as acos
from .math import acosh as acosh
from .warp import activemask as activemask
from .vectors import add2 as add2
from .extern import address_of as address_of
from .integers import align_up as align_up
from .values import all_of as all_of
from .warp import all_sync as all_sync
from .statements import alloc_buffer as alloc_buffer
from .allocate import alloc_fragment as alloc_fragment
from .allocate import alloc_global as alloc_global
from .allocate import alloc_local as alloc_local
from .reducer import alloc_reducer as alloc_reducer
from .allocate import alloc_shared as alloc_shared
from .allocate import alloc_var as alloc_var
from .annotate import annotate_compile_flags as annotate_compile_flags
from .annotate import annotate_l2_hit_ratio as annotate_l2_hit_ratio
from .annotate import annotate_layout as annotate_layout
from .annotate import annotate_min_blocks_per_sm as annotate_min_blocks_per_sm
from .annotate import annotate_pass_configs as annotate_pass_configs
from .annotate import annotate_restrict_buffers as annotate_restrict_buffers
from .annotate import annotate_safe_value as annotate_safe_value
from .values import any_of as any_of
from .warp import any_sync as any_sync
from .math import asin as asin
from .math import asinh as asinh
from .annotate import assume as assume
from .async_copy import async_copy as async_copy
from .math import atan as atan
from .math import atan2 as atan2
from .math import atanh as atanh
from .atomic import atomic_add as atomic_add
from .atomic import atomic_addx2 as atomic_addx2
from .atomic import atomic_addx4 as atomic_addx4
from .atomic import atomic_and as atomic_and
from .atomic import atomic_load as atomic_load
from .atomic import atomic_max as atomic_max
from .atomic import atomic_min as atomic_min
from .atomic import atomic_or as atomic_or
from .atomic import atomic_store as atomic_store
from .atomic import atomic_xor as atomic_xor
from .statements import attr as attr
from .warp import ballot as ballot
from .warp import ballot_sync as ballot_sync
from .types import bfloat16 as bfloat16
from .statements import bind as bind
from .integers import bitwise_and as bitwise_and
from .integers import bitwise_not as bitwise_not
from .integers import bitwise_or as bitwise_or
from .integers import bitwise_xor as bitwise_xor
from .types import boolean as boolean
from .loop import break_loop as break_loop
from .rearrange import c2d_im2col as c2d_im2col
from .extern import call_extern as call_extern
from .extern import call_pure_extern as call_pure_extern
from .values import cast as cast
from .integers import cdiv as cdiv
from .math import ceil as ceil
from .integers import ceildiv as ceildiv
from .math import clamp as clamp
from .fill import clear as clear
from .integers import clz as clz
from .allreduce import comm_reducer as comm_reducer
from ..frontend import const as const
from .loop import continue_loop as continue_loop
from .copy import copy as copy
from .math import copysign as copysign
from .math import cos as cos
from .math import cosh as cosh
from .reduce import cummax as cummax
from .reduce import cumsum as cumsum
from .statements import decl_buffer as decl_buffer
from .debug import device_assert as device_assert
from .annotate import disable_warp_group_reg_alloc as disable_warp_group_reg_alloc
from .types import double as double
from .fastmath import dp4a as dp4a
from .types import dtype as dtype
from .tensor import dyn as dyn
from ..frontend import dynamic as dynamic
from ..frontend import empty as empty
from .math import erf as erf
from .statements import evaluate as evaluate
from .math import exp as exp
from .math import exp10 as exp10
from .math import exp2 as exp2
from .vectors import extract_lane as extract_lane
from .math import fabs as fabs
from .fastmath import fast_rcp as fast_rcp
from .fill import fill as fill
from .reducer import finalize_reducer as finalize_reducer
from .types import float16 as float16
from .types import float32 as float32
from .types import float4_e2m1fn as float4_e2m1fn
from .types import float64 as float64
from .types import float6_e2m3fn as float6_e2m3fn
from .types import float6_e3m2fn as float6_e3m2fn
from .types import float8_e3m4 as float8_e3m4
from .types import float8_e4m3 as float8_e4m3
from .types import float8_e4m3b11fnuz as float8_e4m3b11fnuz
from .types import float8_e4m3fn as float8_e4m3fn
from .types import float8_e4m3fnuz as float8_e4m3fnuz
from .types import float8_e5m2 as float8_e5m2
from .types import float8_e5m2fnuz as float8_e5m2fnuz
from .types import float8_e8m0fnu as float8_e8m0fnu
from .math import floor as floor
from .integers import floordiv as floordiv
from .integers import floormod as floormod
from .math import fma as fma
from .vectors import fma2 as fma2
from .math import fmod as fmod
from .fastmath import fmul as fmul
from .gemm import gemm as gemm
from .gemm import gemm_sp as gemm_sp
from .kernel import get_block_binding as get_block_binding
from .kernel import get_block_bindings as get_block_bindings
from .kernel import get_block_extent as get_block_extent
from .kernel import get_block_extents as get_block_extents
from .warp import get_lane_idx as get_lane_idx
from .kernel import get_thread_binding as get_thread_binding
from .kernel import get_thread_bindings as get_thread_bindings
from .kernel import get_thread_extent as get_thread_extent
from .kernel import get_thread_extents as get_thread_extents
from .vectors import get_tvm_dtype as get_tvm_dtype
from .warp import get_warp_group_idx as get_warp_group_idx
from .warp import get_warp_idx as get_warp_idx
from .warp import get_warp_idx_sync as get_warp_idx_sync
from .loop import grid as grid
from .types import half as half
from .types import handle as handle
from .math import hypot as hypot
from .fastmath import ieee_add as ieee_add
from .fastmath import ieee_fdiv as ieee_fdiv
from .fastmath import ieee_fmaf as ieee_fmaf
from .fastmath import ieee_frcp as ieee_frcp
from .fastmath import ieee_frsqrt as ieee_frsqrt
from .fastmath import ieee_fsqrt as ieee_fsqrt
from .fastmath import ieee_mul as ieee_mul
from .fastmath import ieee_sub as ieee_sub
from .values import if_then_else as if_then_else
from .rearrange import im2col as im2col
from .extern import import_source as import_source
from .fastmath import index_to_coordinates as index_to_coordinates
from .values import infinity as infinity
from .meta import inline as inline
from .types import int16 as int16
from .types import int32 as int32
from .types import int4 as int4
from .types import int64 as int64
from .types import int8 as int8
from .vectors import is_f8f6f4_family as is_f8f6f4_family
from .vectors import is_float4 as is_float4
from .vectors import is_float4_e2m1fn as is_float4_e2m1fn
from .math import isfinite as isfinite
from .math import isinf as isinf
from .math import isnan as isnan
from .statements import launch_thread as launch_thread
from .math import ldexp as ldexp
from .words import ldg128 as ldg128
from .words import ldg256 as ldg256
from .words import ldg32 as ldg32
from .words import ldg64 as ldg64
from .words import lds128 as lds128
from .words import lds32 as lds32
from .words import lds64 as lds64
from .math import likely as likely
from .math import log as log
from .math import log10 as log10
from .math import log1p as log1p
from .math import log2 as log2
from .types import long as long
from .loop import loop_break as loop_break
from ..frontend import macro as macro
from .annotate import make_mma_swizzle_layout as make_mma_swizzle_layout
from .views import make_tensor as make_tensor
from .views import make_tensor_from_addr as make_tensor_from_addr
from .warp import match_all_sync as match_all_sync
from .warp import match_any_sync as match_any_sync
from .tvm import match_buffer as match_buffer
from .math import max as max
from .vectors import max2 as max2
from .values import max_value as max_value
from .meta import meta_class as meta_class
from .math import min as min
from .vectors import min2 as min2
from .values import min_value as min_value
from .vectors import mul2 as mul2
from .warp import named_barrier_arrive as named_barrier_arrive
from .math import nearbyint as nearbyint
from .math import nextafter as nextafter
from .annotate import no_set_max_nreg as no_set_max_nreg
from .loop import parallel as parallel
from .integers import popcount as popcount
from .math import pow as pow
from ..frontend import prim_func as prim_func
from .debug import print as print
from .tensor import ptr as ptr
from .async_copy import ptx_commit_group as ptx_commit_group
from .async_copy import ptx_cp_async as ptx_cp_async
from .async_copy import ptx_wait_group as ptx_wait_group
from .tvm import reads as reads
from .reduce import reduce as reduce
from .reduce import reduce_absmax as reduce_absmax
from .reduce import reduce_abssum as reduce_abssum
from .reduce import reduce_bitand as reduce_bitand
from .reduce import reduce_bitor as reduce_bitor
from .reduce import reduce_bitxor as reduce_bitxor
from .reduce import reduce_max as reduce_max
from .reduce import reduce_min as reduce_min
from .reduce import reduce_sum as reduce_sum
from .reducer import reducer_init as reducer_init
from .reducer import reducer_update as reducer_update
from .values import reinterpret as reinterpret
from .views import reshape as reshape
from .random import rng_init as rng_init
from .random import rng_rand as rng_rand
from .random import rng_rand_float as rng_rand_float
from .math import round as round
from .math import rsqrt as rsqrt
from .tvm import sblock as sblock
from .tvm import sblock_alloc_buffer as sblock_alloc_buffer
from .loop import serial as serial
from .warp import shfl_down as shfl_down
from .warp import shfl_sync as shfl_sync
from .warp import shfl_up as shfl_up
from .warp import shfl_xor as shfl_xor
from .integers import shift_left as shift_left
from .integers import shift_right as shift_right
from .types import short as short
from .warp import shuffle_elect as shuffle_elect
from .math import sigmoid as sigmoid
from .math import sin as sin
from .math import sinh as sinh
from .math import sqrt as sqrt
from .words import stg128 as stg128
from .words import stg256 as stg256
from .words import stg32 as stg32
from .words import stg64 as stg64
from .words import sts128 as sts128
from .words import sts32 as sts32
from .words import sts64 as sts64
from .vectors import sub2 as sub2
from .tensor import symbolic as symbolic
from .warp import sync_grid as sync_grid
from .warp import sync_threads as sync_threads
from .warp import sync_warp as sync_warp
from .warp import syncthreads_and as syncthreads_and
from .warp import syncthreads_count as syncthreads_count
from .warp import syncthreads_or as syncthreads_or
from .math import tan as tan
from .math import tanh as tanh
from .types import tfloat32 as tfloat32
from .statements import thread_binding as thread_binding
from .rearrange import transpose as transpose
from .math import trunc as trunc
from .integers import truncdiv as truncdiv
from .integers import truncmod as truncmod
from .tvm import tvm_access_ptr as tvm_access_ptr
from .tvm import tvm_storage_sync as tvm_storage_sync
from .allreduce import tvm_thread_allreduce as tvm_thread_allreduce
from .warp import tvm_warp_activemask as tvm_warp_activemask
from .warp import tvm_warp_shuffle as tvm_warp_shuffle
from .warp import tvm_warp_shuffle_down as tvm_warp_shuffle_down
from .warp import tvm_warp_shuffle_up as tvm_warp_shuffle_up
from .tvm import type_annotation as type_annotation
from .types import uint as uint
from .types import uint16 as uint16
from .types import uint32 as uint32
from .types import uint4 as uint4
from .types import uint64 as uint64
from .types import uint8 as uint8
from .loop import unroll as unroll
from .annotate import use_swizzle as use_swizzle
from .loop import vectorized as vectorized
from .views import view as view
from .types import void as void
from .warp import warp_reduce_bitand as warp_reduce_bitand
from .warp import warp_reduce_bitor as warp_reduce_bitor
from .warp import warp_reduce_max as warp_reduce_max
from .warp import warp_reduce_min as warp_reduce_min
from .warp import warp_reduce_sum as warp_reduce_sum
from .tvm import writes as writes
from .kernel import ws as ws

bool: DType
float: DType
int: DType
int8x2: DType
int8x4: DType
int8x8: DType
int8x16: DType
int8x32: DType
int8x64: DType
int16x2: DType
int16x4: DType
int16x8: DType
int16x16: DType
int16x32: DType
int16x64: DType
int32x2: DType
int32x4: DType
int32x8: DType
int32x16: DType
int32x32: DType
int32x64: DType
int64x2: DType
int64x4: DType
int64x8: DType
int64x16: DType
int64x32: DType
int64x64: DType
uint4x2: DType
uint4x4: DType
uint4x8: DType
uint4x16: DType
uint4x32: DType
uint4x64: DType
uint8x2: DType
uint8x4: DType
uint8x8: DType
uint8x16: DType
uint8x32: DType
uint8x64: DType
uint16x2: DType
uint16x4: DType
uint16x8: DType
uint16x16: DType
uint16x32: DType
uint16x64: DType
uint32x2: DType
uint32x4: DType
uint32x8: DType
uint32x16: DType
uint32x32: DType
uint32x64: DType
uint64x2: DType
uint64x4: DType
uint64x8: DType
uint64x16: DType
uint64x32: DType
uint64x64: DType
float16x2: DType
float16x4: DType
float16x8: DType
float16x16: DType
float16x32: DType
float16x64: DType
bfloat16x2: DType
bfloat16x4: DType
bfloat16x8: DType
bfloat16x16: DType
bfloat16x32: DType
bfloat16x64: DType
float32x2: DType
float32x4: DType
float32x8: DType
float32x16: DType
float32x32: DType
float32x64: DType
tfloat32x2: DType
tfloat32x4: DType
tfloat32x8: DType
tfloat32x16: DType
tfloat32x32: DType
tfloat32x64: DType
float64x2: DType
float64x4: DType
float64x8: DType
float64x16: DType
float64x32: DType
float64x64: DType
float8_e3m4x2: DType
float8_e3m4x4: DType
float8_e3m4x8: DType
float8_e3m4x16: DType
float8_e3m4x32: DType
float8_e3m4x64: DType
float8_e4m3x2: DType
float8_e4m3x4: DType
float8_e4m3x8: DType
float8_e4m3x16: DType
float8_e4m3x32: DType
float8_e4m3x64: DType
float8_e4m3b11fnuzx2: DType
float8_e4m3b11fnuzx4: DType
float8_e4m3b11fnuzx8: DType
float8_e4m3b11fnuzx16: DType
float8_e4m3b11fnuzx32: DType
float8_e4m3b11fnuzx64: DType
float8_e4m3fnx2: DType
float8_e4m3fnx4: DType
float8_e4m3fnx8: DType
float8_e4m3fnx16: DType
float8_e4m3fnx32: DType
float8_e4m3fnx64: DType
float8_e4m3fnuzx2: DType
float8_e4m3fnuzx4: DType
float8_e4m3fnuzx8: DType
float8_e4m3fnuzx16: DType
float8_e4m3fnuzx32: DType
float8_e4m3fnuzx64: DType
float8_e5m2x2: DType
float8_e5m2x4: DType
float8_e5m2x8: DType
float8_e5m2x16: DType
float8_e5m2x32: DType
float8_e5m2x64: DType
float8_e5m2fnuzx2: DType
float8_e5m2fnuzx4: DType
float8_e5m2fnuzx8: DType
float8_e5m2fnuzx16: DType
float8_e5m2fnuzx32: DType
float8_e5m2fnuzx64: DType
float8_e8m0fnux2: DType
float8_e8m0fnux4: DType
float8_e8m0fnux8: DType
float8_e8m0fnux16: DType
float8_e8m0fnux32: DType
float8_e8m0fnux64: DType
float6_e2m3fnx2: DType
float6_e2m3fnx4: DType
float6_e2m3fnx8: DType
float6_e2m3fnx16: DType
float6_e2m3fnx32: DType
float6_e2m3fnx64: DType
float6_e3m2fnx2: DType
float6_e3m2fnx4: DType
float6_e3m2fnx8: DType
float6_e3m2fnx16: DType
float6_e3m2fnx32: DType
float6_e3m2fnx64: DType
float4_e2m1fnx2: DType
float4_e2m1fnx4: DType
float4_e2m1fnx8: DType
float4_e2m1fnx16: DType
float4_e2m1fnx32: DType
float4_e2m1fnx64: DType
ascend: Any
cuda: Any

__all__ = [
    "Broadcast",
    "Buffer",
    "CUDASourceCodeKernel",
    "Cast",
    "Else",
    "Fragment",
    "FragmentBuffer",
    "GemmWarpPolicy",
    "If",
    "Kernel",
    "Layout",
    "LocalBuffer",
    "Parallel",
    "Persistent",
    "PersistentTileScheduler",
    "Pipelined",
    "Ramp",
    "Ref",
    "Select",
    "Serial",
    "SharedBuffer",
    "Shuffle",
    "StridedTensor",
    "Tensor",
    "Then",
    "Unroll",
    "Vectorized",
    "While",
    "__cos",
    "__exp",
    "__exp10",
    "__ffs",
    "__fns",
    "__ldg",
    "__log",
    "__log10",
    "__log2",
    "__sin",
    "__tan",
    "abs",
    "abs2",
    "access_ptr",
    "acos",
    "acosh",
    "activemask",
    "add2",
    "address_of",
    "align_up",
    "all_of",
    "all_sync",
    "alloc_buffer",
    "alloc_fragment",
    "alloc_global",
    "alloc_local",
    "alloc_reducer",
    "alloc_shared",
    "alloc_var",
    "annotate_compile_flags",
    "annotate_l2_hit_ratio",
    "annotate_layout",
    "annotate_min_blocks_per_sm",
    "annotate_pass_configs",
    "annotate_restrict_buffers",
    "annotate_safe_value",
    "any_of",
    "any_sync",
    "asin",
    "asinh",
    "assume",
    "async_copy",
    "atan",
    "atan2",
    "atanh",
    "atomic_add",
    "atomic_addx2",
    "atomic_addx4",
    "atomic_and",
    "atomic_load",
    "atomic_max",
    "atomic_min",
    "atomic_or",
    "atomic_store",
    "atomic_xor",
    "attr",
    "ballot",
    "ballot_sync",
    "bfloat16",
    "bind",
    "bitwise_and",
    "bitwise_not",
    "bitwise_or",
    "bitwise_xor",
    "bool",
    "boolean",
    "break_loop",
    "c2d_im2col",
    "call_extern",
    "call_pure_extern",
    "cast",
    "cdiv",
    "ceil",
    "ceildiv",
    "clamp",
    "clear",
    "clz",
    "comm_reducer",
    "const",
    "continue_loop",
    "copy",
    "copysign",
    "cos",
    "cosh",
    "cummax",
    "cumsum",
    "decl_buffer",
    "device_assert",
    "disable_warp_group_reg_alloc",
    "double",
    "dp4a",
    "dtype",
    "dyn",
    "dynamic",
    "empty",
    "erf",
    "evaluate",
    "exp",
    "exp10",
    "exp2",
    "extract_lane",
    "fabs",
    "fast_rcp",
    "fill",
    "finalize_reducer",
    "float",
    "float16",
    "float32",
    "float4_e2m1fn",
    "float64",
    "float6_e2m3fn",
    "float6_e3m2fn",
    "float8_e3m4",
    "float8_e4m3",
    "float8_e4m3b11fnuz",
    "float8_e4m3fn",
    "float8_e4m3fnuz",
    "float8_e5m2",
    "float8_e5m2fnuz",
    "float8_e8m0fnu",
    "floor",
    "floordiv",
    "floormod",
    "fma",
    "fma2",
    "fmod",
    "fmul",
    "gemm",
    "gemm_sp",
    "get_block_binding",
    "get_block_bindings",
    "get_block_extent",
    "get_block_extents",
    "get_lane_idx",
    "get_thread_binding",
    "get_thread_bindings",
    "get_thread_extent",
    "get_thread_extents",
    "get_tvm_dtype",
    "get_warp_group_idx",
    "get_warp_idx",
    "get_warp_idx_sync",
    "grid",
    "half",
    "handle",
    "hypot",
    "ieee_add",
    "ieee_fdiv",
    "ieee_fmaf",
    "ieee_frcp",
    "ieee_frsqrt",
    "ieee_fsqrt",
    "ieee_mul",
    "ieee_sub",
    "if_then_else",
    "im2col",
    "import_source",
    "index_to_coordinates",
    "infinity",
    "inline",
    "int",
    "int16",
    "int32",
    "int4",
    "int64",
    "int8",
    "is_f8f6f4_family",
    "is_float4",
    "is_float4_e2m1fn",
    "isfinite",
    "isinf",
    "isnan",
    "launch_thread",
    "ldexp",
    "ldg128",
    "ldg256",
    "ldg32",
    "ldg64",
    "lds128",
    "lds32",
    "lds64",
    "likely",
    "log",
    "log10",
    "log1p",
    "log2",
    "long",
    "loop_break",
    "macro",
    "make_mma_swizzle_layout",
    "make_tensor",
    "make_tensor_from_addr",
    "match_all_sync",
    "match_any_sync",
    "match_buffer",
    "max",
    "max2",
    "max_value",
    "meta_class",
    "min",
    "min2",
    "min_value",
    "mul2",
    "named_barrier_arrive",
    "nearbyint",
    "nextafter",
    "no_set_max_nreg",
    "parallel",
    "popcount",
    "pow",
    "prim_func",
    "print",
    "ptr",
    "ptx_commit_group",
    "ptx_cp_async",
    "ptx_wait_group",
    "reads",
    "reduce",
    "reduce_absmax",
    "reduce_abssum",
    "reduce_bitand",
    "reduce_bitor",
    "reduce_bitxor",
    "reduce_max",
    "reduce_min",
    "reduce_sum",
    "reducer_init",
    "reducer_update",
    "reinterpret",
    "reshape",
    "rng_init",
    "rng_rand",
    "rng_rand_float",
    "round",
    "rsqrt",
    "sblock",
    "sblock_alloc_buffer",
    "serial",
    "shfl_down",
    "shfl_sync",
    "shfl_up",
    "shfl_xor",
    "shift_left",
    "shift_right",
    "short",
    "shuffle_elect",
    "sigmoid",
    "sin",
    "sinh",
    "sqrt",
    "stg128",
    "stg256",
    "stg32",
    "stg64",
    "sts128",
    "sts32",
    "sts64",
    "sub2",
    "symbolic",
    "sync_grid",
    "sync_threads",
    "sync_warp",
    "syncthreads_and",
    "syncthreads_count",
    "syncthreads_or",
    "tan",
    "tanh",
    "tfloat32",
    "thread_binding",
    "transpose",
    "trunc",
    "truncdiv",
    "truncmod",
    "tvm_access_ptr",
    "tvm_storage_sync",
    "tvm_thread_allreduce",
    "tvm_warp_activemask",
    "tvm_warp_shuffle",
    "tvm_warp_shuffle_down",
    "tvm_warp_shuffle_up",
    "type_annotation",
    "uint",
    "uint16",
    "uint32",
    "uint4",
    "uint64",
    "uint8",
    "unroll",
    "use_swizzle",
    "vectorized",
    "view",
    "void",
    "warp_reduce_bitand",
    "warp_reduce_bitor",
    "warp_reduce_max",
    "warp_reduce_min",
    "warp_reduce_sum",
    "writes",
    "ws",
]
