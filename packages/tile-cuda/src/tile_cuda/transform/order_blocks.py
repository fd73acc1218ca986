"""OrderBlocks: T.use_swizzle. Blocks that run at the same time form a panel of the grid instead of a line of it.

Needs FLAT, leaves FLAT. The hardware starts blocks in the order of their number, x fastest. In a panel of `size` rows,
numbers go down the columns instead, and every second panel is walked backwards, so that it begins with the columns that
the one before it ended with. The last panel may have fewer rows. Indices of the grid become values of the hardware's.
"""

from __future__ import annotations

from tile_core.dtypes import DType
from tile_core.ir import (
    Bind,
    Block,
    Expr,
    KernelLaunch,
    PrimFunc,
    Rewriter,
    Stmt,
    Var,
    binary,
    cast,
    const,
    select,
    seq,
    walk,
)
from tile_core.transform import Pass, PassContext, register_pass

__all__ = ["OrderBlocks", "panel_place"]

INT32 = DType("int32")


@register_pass("OrderBlocks", needs="FLAT", leaves="same")
class OrderBlocks(Pass):
    def function(self, function: PrimFunc, context: PassContext) -> PrimFunc:
        return _Order().rewrite(function)


class _Order(Rewriter):
    def rewrite_KernelLaunch(self, node: KernelLaunch) -> Stmt:
        asked = [b.annotation("swizzle") for b in walk(node.body) if isinstance(b, Block)]
        asked = [a for a in asked if a is not None]
        if not asked or len(node.grid_vars) < 2:
            return node
        order, size = asked[0]
        x, y = node.grid_vars[:2]
        if order == "column":
            # The same with the axes in each other's place.
            x, y = y, x
        own = tuple(Var(f"block_{axis}", v.dtype, span=v.span) for axis, v in zip("xyz", node.grid_vars))
        extents = {v: cast(e, INT32) for v, e in zip(node.grid_vars, node.grid)}
        number = Var("block_number", INT32)
        first = binary("add", binary("mul", cast(own[1], INT32), extents[node.grid_vars[0]]), cast(own[0], INT32))
        binds = [Bind(number, first, span=node.span)]
        names = [Var(name, INT32) for name in ("panel", "panel_block", "panel_rows", "panel_column")]
        steps = panel_place(number, extents[x], extents[y], size, order != "mlx", names)
        binds += [Bind(var, value, span=node.span) for var, value in zip(names, steps[:4])]
        binds += [Bind(x, cast(steps[4], x.dtype), span=node.span), Bind(y, cast(steps[5], y.dtype), span=node.span)]
        binds += [Bind(v, o, span=node.span) for v, o in zip(node.grid_vars[2:], own[2:])]
        return node.with_(grid_vars=own, body=seq(*binds, node.body))


def panel_place(
    number: Expr, columns: Expr, rows: Expr, size: int, turning: bool, names: list[Var]
) -> tuple[Expr, Expr, Expr, Expr, Expr, Expr]:
    """The values of the four `names` (panel, number of the block in it, rows of the panel, column counted from where
    the panel begins), then column and row of a block."""
    panel, block, height, column = names
    of_panel = binary("mul", columns, size)
    left = binary("sub", rows, binary("mul", panel, size))
    backwards = binary("sub", binary("sub", columns, 1), column)
    odd = binary("ne", binary("floormod", panel, 2), const(0, INT32))
    return (
        binary("truncdiv", number, of_panel),
        binary("truncmod", number, of_panel),
        binary("min", const(size, INT32), left),
        binary("truncdiv", block, height),
        select(odd, backwards, column) if turning else column,
        binary("add", binary("mul", panel, size), binary("truncmod", block, height)),
    )
