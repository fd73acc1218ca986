"""Pass options of the peer: every key that TileLang code may pass is known here.

What this version reads has its own declaration in the pass that reads it; the rest is accepted, does nothing, and is
listed by `explain()`. Two defaults differ from the peer's on purpose: the race check of T.Parallel and the warning
about unproven bounds are on, because a proven race or fault is an error here and an unknown one is said once.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import Any

from .options import declare_option

__all__ = ["INERT_KEYS", "PEER_KEYS", "PassConfigKey"]

_MAYBE_TEXT = (str, type(None))
_LAYOUT_COSTS = ("register-count", "io-aware")


def _one_of(*allowed: str) -> Any:
    return lambda value: None if value in allowed else f"allowed: {', '.join(allowed)}"


def _register_level(value: Any) -> str | None:
    return None if value is None or 0 <= value <= 10 else "allowed: 0 to 10"


def _bitwidth(value: int) -> str | None:
    return None if value in (32, 64) else "allowed: 32, 64"


# key, default, type or types, meaning, check
_OPTIONS: tuple[tuple[Any, ...], ...] = (
    ("tl.Simplify", {}, dict, "settings of the simplifier by name"),
    ("tl.disable_buffer_init_check", False, bool, "no check for reads of data that was never written"),
    ("tl.disable_data_race_check", False, bool, "no check for races between iterations of T.Parallel"),
    ("tl.disable_out_of_bound_warning", False, bool, "no warning where an access is not proven to be in bounds"),
    ("tl.disable_prelower_semantic_check", False, bool, "no checks of the kernel's meaning before lowering"),
    ("tl.disable_warp_specialized", False, bool, "no automatic warp specialisation"),
    ("tl.enable_auto_schedule", True, bool, "the Ascend scheduler orders statements"),
    ("tl.enable_auto_warp_specialization", None, _MAYBE_TEXT, "name of a warp-specialisation scheduler"),
    ("tl.enable_fast_math", False, bool, "faster, less exact floating point"),
    ("tl.ptxas_register_usage_level", None, (int, type(None)), "register pressure level, 0 to 10", _register_level),
    ("tl.device_compile_flags", None, (str, list, tuple, type(None)), "further flags of the device compiler"),
    ("tl.emit_line_directives", False, bool, "source lines in generated code"),
    ("tl.config_index_bitwidth", 32, int, "least width of indices in bits", _bitwidth),
    ("tl.enable_reducer_plan_verbose", False, bool, "log of reducer planning"),
    ("tl.reducer_force_baseline", False, bool, "plain reducers only"),
    ("tl.layout_cost_model", "register-count", str, "what layout inference minimises", _one_of(*_LAYOUT_COSTS)),
    ("tl.disable_tma_lower", False, bool, "no tensor copy engine for stores"),
    ("tl.disable_safe_memory_legalize", False, bool, "leaves accesses to global tensors unguarded; True or False"),
    ("tl.disable_vectorize_256", False, bool, "no vector accesses of 256 bits"),
    ("tl.enable_fp32x2_reduction", True, bool, "sums of pairs of float32"),
    ("tl.enable_async_copy", True, bool, "asynchronous copies in pipelined loops"),
    ("tl.enable_lower_ldgstg", False, bool, "explicit global loads and stores"),
    ("tl.enable_lower_ldgstg_predicated", False, bool, "explicit predicated global loads and stores"),
    ("tl.enable_vectorize_planner_verbose", False, bool, "log of the vectoriser"),
    ("tl.disable_wgmma", False, bool, "mma.sync in place of wgmma"),
    ("tl.debug_merge_shared_memory_allocations", False, bool, "log of shared memory planning"),
    ("tl.enable_aggressive_shared_memory_merge", False, bool, "shared tiles are tried in several orders"),
    ("tl.disable_shared_memory_reuse", False, bool, "no two buffers share memory"),
    ("tl.disable_shuffle_elect", False, bool, "thread 0 in place of an elected one"),
    ("tl.disable_loop_unswitching", False, bool, "no hoisting of conditions out of loops"),
    ("tl.loop_unswitching_allow_non_trivial_else", False, bool, "hoists conditions with an else branch too"),
    ("tl.if_stmt_binding_inline_replayable_binds", True, bool, "repeats cheap binds inside branches"),
    ("tl.disable_thread_storage_sync", False, bool, "no automatic block-wide barriers"),
    ("tl.force_let_inline", False, bool, "inlines named values"),
    ("tl.ast_print_enable", False, bool, "prints the kernel before lowering"),
    ("tl.layout_visualization_enable", False, bool, "draws inferred layouts"),
    ("tl.layout_visualization_formats", "", str, "formats of the drawings: txt, png, svg, pdf, all"),
    ("tl.storage_rewrite_detect_inplace", False, bool, "in-place temporaries share memory"),
    ("tl.enable_dump_ir", False, bool, "writes the IR after each pass"),
    ("tl.dump_ir_path", "./dump_ir/", str, "folder of the dumps"),
    ("tl.pass_profile", False, bool, "times passes"),
    ("tl.pass_profile_threshold_ms", 0, (int, float), "least time shown"),
    ("tl.UnrollLoop", {}, dict, "settings of loop unrolling"),
    ("tl.AscendRemoveNoOp", {}, dict, "settings of the Ascend clean-up"),
    ("tir.enable_equiv_terms_in_cse_tir", True, bool, "merges equal subexpressions up to reordering"),
    ("tirx.disable_cse_tir", False, bool, "no merging of common subexpressions"),
    ("tirx.Simplify", {}, (dict, bool), "settings of the simplifier"),
    ("tirx.disable_storage_rewrite", False, bool, "no sharing of storage"),
    ("tirx.disable_vectorize", False, bool, "no vector code"),
    ("tirx.use_async_copy", True, bool, "asynchronous copies"),
    ("tirx.enable_debug", False, bool, "debug build"),
    ("tirx.merge_static_smem", True, bool, "one static shared memory arena"),
    ("tirx.add_lower_pass", None, (list, tuple, type(None)), "further passes: (phase, pass) pairs"),
    ("tirx.noalias", True, bool, "tensors do not overlap"),
    ("cuda.kernels_output_dir", "", str, "folder in which generated files are kept"),
)

PEER_KEYS = tuple(row[0] for row in _OPTIONS)

# Members whose name does not follow from the key.
_MEMBERS = {
    "tir.enable_equiv_terms_in_cse_tir": "TIR_ENABLE_EQUIV_TERMS_IN_CSE",
    "tirx.disable_cse_tir": "TIR_DISABLE_CSE",
    "tl.disable_safe_memory_legalize": "TL_DISABLE_SAFE_MEMORY_ACCESS",
    "tl.dump_ir_path": "TL_DUMP_IR_DIR",
}


def _member(key: str) -> str:
    return _MEMBERS.get(key) or key.replace("tirx.", "tir.").replace(".", "_").upper()


PassConfigKey = Enum("PassConfigKey", {_member(key): key for key in PEER_KEYS}, module=__name__, type=str)
"""The keys as names, ``PassConfigKey.TL_ENABLE_FAST_MATH``; a member is the text of its key."""

# Keys that a pass of this distribution reads; what is not among them is inert for every target of core's own passes.
_READ_BY_CORE = (
    "tl.disable_buffer_init_check",
    "tl.disable_data_race_check",
    "tl.disable_out_of_bound_warning",
    "tl.disable_prelower_semantic_check",
    "tl.disable_safe_memory_legalize",
    "tl.disable_loop_unswitching",
    "tl.config_index_bitwidth",
    "tirx.disable_vectorize",
)
INERT_KEYS = tuple(key for key in PEER_KEYS if key not in _READ_BY_CORE)

_rows: Sequence[tuple[Any, ...]] = list(_OPTIONS)
for _row in _rows:
    declare_option(*_row)

# This project's own, which must be known before its backend is loaded.
declare_option("tl.cuda_compiler", "nvrtc", str, "what compiles CUDA source: nvrtc or nvcc", _one_of("nvrtc", "nvcc"))
