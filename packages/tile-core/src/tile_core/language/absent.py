"""Names that kernels for other versions of the language use and that this one does not have: what they belong to, and
what to write instead. `names.missing_name` puts both into its error.

A row is (what the names belong to, what to write instead, the names). A name that is supported is in no row.
"""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["ABSENT", "Absent"]


class Absent(NamedTuple):
    """Why a name is missing.

    Args:
        belongs: what it is a part of.
        instead: what does the same here.
    """

    belongs: str
    instead: str


_HOPPER = "Hopper (sm_90a), for which no code is generated yet"
_BLACKWELL = "Blackwell (sm_100 and later), which is not among the targets"
_TVM = "TVM's own kernels, not the language of tiles"
_NODES = "the inside of a compiler: node classes of its IR"
_PTX = "single machine instructions, which a candidate of a tile operation chooses here"
_WARP_ROLES = "schedules of warp roles written by hand, which need Hopper (sm_90a)"

_ROWS: tuple[tuple[str, str, str], ...] = (
    # Hopper: the tensor copy engine, barriers in memory, warp-group products, clusters.
    (
        _HOPPER,
        "use T.copy inside T.Pipelined; it chooses the copy instruction of the target",
        "tma_copy tma_load tma_store_arrive tma_store_wait create_tma_descriptor copy_cluster ptx_cp_async_bulk",
    ),
    (
        _HOPPER,
        "use T.Pipelined, which places and waits for its barriers, or T.sync_threads",
        "alloc_barrier alloc_cluster_barrier create_barriers mbarrier_arrive mbarrier_arrive_expect_tx"
        " mbarrier_expect_tx mbarrier_wait_parity barrier_arrive barrier_wait ptx_arrive_barrier"
        " ptx_arrive_barrier_expect_tx ptx_arrive_cluster_barrier ptx_cp_async_barrier ptx_fence_barrier_init"
        " ptx_init_barrier_thread_count ptx_wait_barrier cp_async_barrier_noinc fence_proxy_async",
    ),
    (
        _HOPPER,
        "use T.gemm; it chooses the matrix instruction of the target and waits for it",
        "wgmma_gemm wgmma_mma wait_wgmma warpgroup_arrive warpgroup_commit_batch warpgroup_wait"
        " warpgroup_fence_operand ptx_wgmma_ss ptx_wgmma_rs initialize_wgmma_descriptor"
        " increase_descriptor_offset alloc_descriptor alloc_wgmma_desc WGMMATensorCoreIntrinEmitter"
        " WGMMADescriptorParams compute_gmma_descriptor",
    ),
    (
        _HOPPER,
        "use T.Kernel; blocks do not share memory on the targets that there are",
        "ClusterKernel block_rank_in_cluster cluster_arrive cluster_arrive_relaxed cluster_wait cluster_sync"
        " get_cluster_dims get_cluster_extent get_cluster_extents get_cluster_id get_cluster_ids get_cluster_size",
    ),
    (
        _HOPPER,
        "leave it out; the device compiler divides the registers",
        "set_max_nreg inc_max_nreg dec_max_nreg annotate_producer_reg_dealloc annotate_consumer_reg_alloc",
    ),
    (
        _HOPPER,
        "leave it out; kernels of one stream run one after the other",
        "pdl_trigger pdl_sync",
    ),
    (
        _WARP_ROLES,
        "use T.Pipelined",
        "ws_op annotate_ws_schedule annotate_ws_pipeline_depth WarpSpecialize WarpSpecializeFrame WSID WSInstr"
        " WSOpRef WSPipeline WSRole WSSchedule WSScope WSSync WSSyncKind",
    ),
    # Blackwell.
    (
        _BLACKWELL,
        "use T.gemm on fragments and shared memory",
        "alloc_tmem deallocate_tmem tcgen05_gemm tcgen05_mma tcgen05_mma_arrive tcgen05_before_thread_sync"
        " tcgen05_after_thread_sync tcgen05_cp_warpx4 tcgen05_sf_warp_transpose initialize_tcgen05_descriptor"
        " alloc_tcgen05_smem_desc alloc_tcgen05_instruction_desc alloc_tcgen05_instr_desc"
        " ptx_tcgen05_mma_ss ptx_tcgen05_mma_ts ptx_tcgen05_mma_blockscaled_ss TCGEN05TensorCoreIntrinEmitter"
        " TCGEN05DescriptorParams compute_umma_descriptor TensorCoreIntrinEmitterSM120 float4_e2m1_unpacked"
        " is_float4_e2m1_unpacked",
    ),
    (
        _BLACKWELL,
        "dequantise the operands with their scales into shared memory, then T.gemm",
        "gemm_blockscaled mma_gemm_blockscaled tcgen05_gemm_blockscaled tcgen05_mma_blockscaled ptx_mma_block_scale"
        " make_blockscaled_gemm_layout",
    ),
    (
        _BLACKWELL,
        "use T.copy for each row",
        "tma_gather4 tma_gather4_bytes tma_scatter4 tma_load_2sm",
    ),
    (
        _BLACKWELL,
        "use T.Persistent",
        "clc_try_cancel clc_try_cancel_multicast clc_is_canceled clc_get_first_ctaid_x clc_get_first_ctaid_y"
        " clc_get_first_ctaid_z",
    ),
    (
        "single sparse matrix instructions, which candidates of T.gemm_sp choose here",
        "use T.gemm_sp",
        "wgmma_gemm_sp tcgen05_gemm_sp ptx_mma_sp ptx_wgmma_sp_ss ptx_wgmma_sp_rs"
        " SparseTensorCoreIntrinEmitter WGSparseTensorCoreIntrinEmitter",
    ),
    # Matrix instructions by hand.
    (
        _PTX,
        "use T.gemm(A, B, C), which loads by ldmatrix and multiplies by mma; T.clear(C) for mma_fill, T.copy(C, D) for"
        " mma_store",
        "ptx_mma ptx_mma_sm70 ptx_ldmatrix mma_fill mma_store mma_store_index_map get_mma_micro_size"
        " get_ldmatrix_offset TensorCoreIntrinEmitter TensorCoreIntrinEmitterWithLadderTransform"
        " validate_gemm_ab_dtypes tvm_mma_sync tvm_bmma_sync tvm_load_matrix_sync tvm_store_matrix_sync"
        " tvm_fill_fragment",
    ),
    (
        _PTX,
        "use T.annotate_layout({A: T.make_mma_swizzle_layout(A)}); shared operands of T.gemm are swizzled without it",
        "get_swizzle_layout",
    ),
    # Annotations of one machine.
    (
        "layouts of partial sums, which a reduction plans itself here",
        "use T.reduce_sum or T.alloc_reducer",
        "PartialFragment",
    ),
    (
        "schedulers that keep state across tiles",
        "use T.Persistent",
        "BaseTileScheduler",
    ),
    # TVM's statements.
    (
        _TVM,
        "write Python's operators: +, -, *, /, //, %, <, <=, ==, &, |, ~ and `and`, `or`, `not`",
        "Add Sub Mul Div Mod FloorDiv FloorMod LT LE GT GE EQ NE And Or Not Min Max",
    ),
    (
        _TVM,
        "write the Python value, or call the type: T.int32(3), T.float32(0.5)",
        "IntImm FloatImm StringImm",
    ),
    (
        _TVM,
        "assign to a name: x = value; T.alloc_var is a variable that is stored to",
        "Let let var meta_var Var SizeVar get_let_value has_let_value undef",
    ),
    (
        _TVM,
        "store with A[i, j] = value, load with A[i, j]",
        "BufferLoad buffer_store ProducerLoad",
    ),
    (
        _TVM,
        "use T.alloc_shared, T.alloc_fragment, T.alloc_local or T.alloc_global",
        "allocate buffer_decl buffer_var tvm_stack_alloca TVMBackendAllocWorkspace TVMBackendFreeWorkspace",
    ),
    (
        _TVM,
        "annotate the parameter: A: T.Tensor((M, N), dtype)",
        "buffer arg func_attr func_name func_ret Ptr handle_add_byte_offset",
    ),
    (
        _TVM,
        "leave it out: what a statement reads and writes follows from its body",
        "sblock_attr init where axis ignore_loop_partition block_name_suffix_context"
        " iter_var IterVar Range index_map target",
    ),
    (
        _TVM,
        "use T.Kernel(…, threads=…), T.get_block_binding and T.get_thread_binding",
        "env_thread KernelLaunchFrame tvm_thread_invariant",
    ),
    (
        _TVM,
        "write Python's return outside a condition, or put the rest into an if",
        "ret thread_return",
    ),
    (
        _TVM,
        "use T.reduce_sum, T.reduce_max, … or T.alloc_reducer",
        "CommReducer Reduce",
    ),
    (
        _TVM,
        "use T.call_extern",
        "call_packed call_cpacked call_packed_lowered call_cpacked_lowered call_kernel"
        " call_llvm_intrin call_llvm_pure_intrin llvm_lookup_intrinsic_id tvm_call_packed tvm_call_cpacked"
        " tvm_call_packed_lowered tvm_call_cpacked_lowered anylist_getitem anylist_resetitem"
        " anylist_setitem_call_packed anylist_setitem_call_cpacked lookup_param Call CallEffectKind",
    ),
    (
        _TVM,
        "leave it out: the launcher checks its arguments and builds what the call needs",
        "tvm_stack_make_array tvm_stack_make_shape tvm_struct_get tvm_struct_set tvm_throw_last_error tvm_tuple"
        " isnullptr",
    ),
    (
        _TVM,
        'call the function that its name stands for: T.exp(x) for "tir.exp"; functions of the target by T.call_extern',
        "call_intrin",
    ),
    (
        _TVM,
        "raise the error from Python when the kernel is traced, or use T.device_assert",
        "Assert",
    ),
    (
        _TVM,
        "use T.Ramp and T.Broadcast, or a loop over T.vectorized",
        "ramp broadcast vectorhigh vectorlow vectorcombine vscale get_active_lane_mask",
    ),
    (
        _TVM,
        "write the shift and the product of the wider type, then T.cast",
        "q_multiply_shift q_multiply_shift_per_axis",
    ),
    (
        _TVM,
        "use kernel.get_profiler() or torch's profiler",
        "start_profile_intrinsic end_profile_intrinsic",
    ),
    (
        _NODES,
        "annotate with the value's element type, or leave the annotation out",
        "PrimExpr PrimFunc Any AnyDType JITFunc",
    ),
)

ABSENT: dict[str, Absent] = {name: Absent(belongs, instead) for belongs, instead, row in _ROWS for name in row.split()}
