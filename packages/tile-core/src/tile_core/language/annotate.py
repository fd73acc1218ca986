"""Facts and wishes that a kernel states: assumptions, layouts, values outside bounds, the order of blocks, options of
the compilation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..errors import CompileError, declare_codes
from ..frontend.builder import Frame, known, require_builder
from ..frontend.operators import as_condition, is_expression
from ..ir import Buffer, as_expr, cast
from ..layout import Fragment, Layout, row_major
from ..layout.swizzle import swizzled
from .operands import require_flag

__all__ = [
    "annotate_compile_flags",
    "annotate_l2_hit_ratio",
    "annotate_layout",
    "annotate_min_blocks_per_sm",
    "annotate_pass_configs",
    "annotate_restrict_buffers",
    "annotate_safe_value",
    "assume",
    "disable_warp_group_reg_alloc",
    "make_mma_swizzle_layout",
    "no_set_max_nreg",
    "use_swizzle",
]

declare_codes(
    {
        "E-ANNOTATE": "an annotation with a value that it does not take",
        "E-ASSUME-FALSE": "an assumption that is false",
    }
)

_ORDERS = ("row", "column", "mlx")


def assume(cond: Any = None) -> None:
    """States a fact, the condition `cond`: the compiler may use it from here to the end of the enclosing body. Facts
    about sizes are checked when the kernel is called. Without a condition nothing is stated."""
    builder = require_builder("T.assume")
    if cond is None:
        return
    condition = as_condition(cond) if isinstance(cond, str) else known(cond)
    if not is_expression(condition):
        if condition:
            return
        raise CompileError(
            "E-ASSUME-FALSE",
            "T.assume is given something false",
            facts=[f"found {cond!r}"],
            help="correct the condition",
        )
    builder.wrap_rest("assume", None, as_condition(condition, builder.span))


def disable_warp_group_reg_alloc() -> None:
    """Asks that warp groups keep the registers which the block was given. No target of this version moves registers
    between them, so that it always holds."""
    require_builder("T.disable_warp_group_reg_alloc").require_kernel("T.disable_warp_group_reg_alloc")


def no_set_max_nreg() -> None:
    """`disable_warp_group_reg_alloc` by its older name."""
    require_builder("T.no_set_max_nreg").require_kernel("T.no_set_max_nreg")


def use_swizzle(panel_size: int, order: str = "row", enable: bool = True) -> None:
    """Orders the blocks of the grid in panels, so that blocks running at the same time share data in cache.

    Args:
        panel_size: rows (or columns) of blocks a panel.
        order: row, column or mlx.
        enable: False does nothing.
    """
    builder = require_builder("T.use_swizzle")
    builder.require_kernel("T.use_swizzle")
    size = known(panel_size)
    if not isinstance(size, int) or isinstance(size, bool) or size < 1 or order not in _ORDERS:
        raise CompileError(
            "E-ANNOTATE",
            f"T.use_swizzle does not take panel_size={panel_size!r}, order={order!r}",
            facts=[f"allowed: a positive integer; {', '.join(_ORDERS)}"],
            help="use T.use_swizzle(10)",
        )
    if require_flag("T.use_swizzle", "enable", enable):
        _kernel_frame().annotations["swizzle"] = (order, size)


def annotate_layout(layout_map: Mapping[Any, Any]) -> None:
    """Fixes how buffers on chip are laid out, in place of what the compiler infers.

    Args:
        layout_map: buffer → T.Layout, T.Fragment, or a function from indices to physical indices.
    """
    builder = require_builder("T.annotate_layout")
    builder.require_kernel("T.annotate_layout")
    for buffer, layout in _pairs("T.annotate_layout", layout_map):
        if callable(layout) and not isinstance(layout, (Layout, Fragment)):
            layout = Layout(buffer.static_shape(), layout)
        if not buffer.is_on_chip:
            raise CompileError(
                "E-ANNOTATE",
                f"T.annotate_layout cannot lay out {buffer.name}, whose memory is its caller's",
                facts=[f"{buffer!r}"],
                help="leave it out in every kernel that shares the tensor: their results stay the same",
            )
        if not isinstance(layout, (Layout, Fragment)):
            raise CompileError(
                "E-ANNOTATE",
                f"T.annotate_layout cannot lay out {buffer.name} so",
                facts=[f"{buffer!r}", f"found {layout!r}, a {type(layout).__name__}"],
                help="give a T.Layout, a T.Fragment or a function of the indices for a buffer on chip",
            )
        if tuple(layout.domain) != buffer.static_shape():
            raise CompileError(
                "E-ANNOTATE",
                f"the layout for {buffer.name} has another shape",
                facts=[f"{buffer!r}", f"layout of {list(layout.domain)}"],
                help=f"make a layout of shape {list(buffer.static_shape() or ())}",
            )
        if isinstance(layout, Layout):
            layout.require_injective(buffer.name)
        else:
            layout.require_distinct(buffer.name)
        frame = builder.home.get(buffer) or _kernel_frame()
        others = tuple(pair for pair in frame.annotations.get("layouts", ()) if pair[0] is not buffer)
        frame.annotations["layouts"] = (*others, (buffer, layout))


def make_mma_swizzle_layout(shared_buf: Any, is_smooth: bool = False) -> Layout:
    """The layout in which matrix instructions load a shared tile without bank conflicts, for `annotate_layout`: what
    operands of `T.gemm` get by themselves.

    Args:
        shared_buf: a tile of two or more axes in shared memory.
        is_smooth: row-major in its place.
    """
    shape = shared_buf.static_shape() if isinstance(shared_buf, Buffer) else None
    if shape is None or shared_buf.memory.level != "block" or len(shape) < 2 or not isinstance(is_smooth, bool):
        raise CompileError(
            "E-ANNOTATE",
            "T.make_mma_swizzle_layout lays out a shared tile of two or more axes",
            facts=[f"found {shared_buf!r}, is_smooth={is_smooth!r}"],
            help="pass a tile from T.alloc_shared",
        )
    return row_major(shape) if is_smooth else swizzled(shape, shared_buf.dtype)


def annotate_safe_value(safe_value_map: Mapping[Any, Any]) -> None:
    """What reads outside a global tensor give, in place of 0.

    Args:
        safe_value_map: tensor → scalar.
    """
    builder = require_builder("T.annotate_safe_value")
    builder.require_kernel("T.annotate_safe_value")
    frame = _kernel_frame()
    for buffer, value in _pairs("T.annotate_safe_value", safe_value_map):
        if buffer.is_on_chip or not (is_expression(value) or isinstance(value, (bool, int, float))):
            raise CompileError(
                "E-ANNOTATE",
                f"T.annotate_safe_value cannot give {buffer.name} this value",
                facts=[f"{buffer!r}", f"found {value!r}"],
                help="give a scalar for a global tensor; on chip every access is inside",
            )
        expr = cast(as_expr(value, buffer.dtype), buffer.dtype)
        builder.adopt(expr)
        others = tuple(pair for pair in frame.annotations.get("safe_value", ()) if pair[0] is not buffer)
        frame.annotations["safe_value"] = (*others, (buffer, expr))


def annotate_min_blocks_per_sm(n: int) -> None:
    """How many blocks should fit on a multiprocessor at once: the CUDA compiler limits registers for it; other targets
    have nothing to do.

    Args:
        n: a positive number of blocks.
    """
    kernel = require_builder("T.annotate_min_blocks_per_sm").require_kernel("T.annotate_min_blocks_per_sm")
    blocks = known(n)
    if not isinstance(blocks, int) or isinstance(blocks, bool) or not 1 <= blocks <= 32:
        raise CompileError(
            "E-ANNOTATE",
            f"T.annotate_min_blocks_per_sm does not take {n!r}",
            facts=["allowed: 1 to 32"],
            help="leave it out to let the compiler use all registers",
        )
    kernel.annotations["min_blocks_per_sm"] = blocks


def annotate_restrict_buffers(*buffers: Any) -> None:
    """Tensors that may overlap others: the generated code does not take their pointers to be the only way to their
    elements.

    Args:
        buffers: tensors in device memory.
    """
    kernel = require_builder("T.annotate_restrict_buffers").require_kernel("T.annotate_restrict_buffers")
    for buffer in buffers:
        if not isinstance(buffer, Buffer) or buffer.is_on_chip:
            raise CompileError(
                "E-ANNOTATE",
                "T.annotate_restrict_buffers names tensors in device memory",
                facts=[f"found {buffer!r}"],
                help="pass parameters of the kernel",
            )
    kernel.annotations["overlapping"] = (*kernel.annotations.get("overlapping", ()), *buffers)


def annotate_l2_hit_ratio(l2_hit_ratio_map: Mapping[Any, Any]) -> None:
    """How much of a tensor should stay in the second-level cache while the kernel runs: CUDA launches it with an access
    policy window over that tensor. A launch has one window, so one tensor can be named. Targets without such a cache
    leave the hint aside.

    Args:
        l2_hit_ratio_map: tensor → a number from 0 to 1.
    """
    kernel = require_builder("T.annotate_l2_hit_ratio").require_kernel("T.annotate_l2_hit_ratio")
    found = []
    for buffer, ratio in _pairs("T.annotate_l2_hit_ratio", l2_hit_ratio_map):
        value = known(ratio)
        if buffer.is_on_chip or not isinstance(value, (int, float)) or isinstance(value, bool) or not 0 <= value <= 1:
            raise CompileError(
                "E-ANNOTATE",
                f"T.annotate_l2_hit_ratio cannot give {buffer.name} this ratio",
                facts=[f"{buffer!r}", f"found {ratio!r}"],
                help="give a number from 0 to 1 for a tensor in device memory",
            )
        found.append((buffer, float(value)))
    pairs = (*kernel.annotations.get("l2_hit_ratio", ()), *found)
    if len(pairs) > 1:
        raise CompileError(
            "E-ANNOTATE",
            "T.annotate_l2_hit_ratio names more than one tensor",
            facts=[f"found {', '.join(buffer.name for buffer, _ in pairs)}", "allowed: one; a launch has one window"],
            help="name the tensor that is read most often, and give others an eviction_policy in T.copy",
        )
    kernel.annotations["l2_hit_ratio"] = pairs


def annotate_compile_flags(flags: Any) -> None:
    """`flags` for the device's compiler, a string or a list of them; they are added to those of the call that
    compiles."""
    builder = require_builder("T.annotate_compile_flags")
    values = [flags] if isinstance(flags, str) else flags
    if not isinstance(values, (list, tuple)) or not all(isinstance(flag, str) for flag in values):
        raise CompileError(
            "E-ANNOTATE", f"T.annotate_compile_flags does not take {flags!r}", help="pass a string or a list of strings"
        )
    builder.attrs["compile_flags"] = (*builder.attrs.get("compile_flags", ()), *values)


def annotate_pass_configs(configs: Mapping[Any, Any]) -> None:
    """Pass options of this kernel, `configs` by key; those of the call that compiles win."""
    builder = require_builder("T.annotate_pass_configs")
    if not isinstance(configs, Mapping):
        raise CompileError(
            "E-ANNOTATE", f"T.annotate_pass_configs does not take {configs!r}", help="pass a dict of options"
        )
    known_pairs = dict(builder.attrs.get("pass_configs", ()))
    known_pairs.update({str(getattr(key, "value", key)): value for key, value in configs.items()})
    builder.attrs["pass_configs"] = tuple(known_pairs.items())


def _kernel_frame() -> Frame:
    frame = require_builder("an annotation").enclosing("kernel")
    if frame is None:
        raise TypeError("the kernel has no frame")
    return frame


def _pairs(op: str, mapping: Any) -> list[tuple[Buffer, Any]]:
    if isinstance(mapping, Mapping) and all(isinstance(key, Buffer) for key in mapping):
        return list(mapping.items())
    raise CompileError(
        "E-ANNOTATE",
        f"{op} does not take {mapping!r}",
        facts=["allowed: a dict with buffers as keys"],
        help=f"write {op}({{A: …}})",
    )
