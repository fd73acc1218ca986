"""Gemm with the matrix instructions of a warp (mma.sync); `gemm_sparse` has what a sparse A adds."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tile_core.dtypes import DType
from tile_core.ir import (
    AccessPtr,
    Buffer,
    BufferLoad,
    BufferRegion,
    BufferStore,
    Expr,
    For,
    IntImm,
    Stmt,
    Var,
    as_expr,
    binary,
    cast,
    const,
    is_zero,
    seq,
)
from tile_core.layout import Fragment, Layout, row_major
from tile_core.tileop import (
    Candidate,
    Constraint,
    Declined,
    Facts,
    Gemm,
    LowerContext,
    MatrixProduct,
    Ok,
)
from tile_core.tileop.default_candidates import accumulator_dtype

from ..device import intrinsics
from ..layouts import WARP, matrix_tile, operand_a, operand_b, product, warp_partition
from ..target import architecture
from ..transform.bind_threads import thread_index
from .atoms import Atom, atoms, choose_atom, oldest_architecture

__all__ = ["Emitter", "MatrixInstructions", "loop", "pointer"]

INT32 = DType("int32")

# Steps of K are written out as long as there are so few instructions: the next step's loads then overlap this one's
# products, for about 0.1 s more of the device compiler (measured on gemms of 128 x 128 x 32 and 64).
_UNROLLED_INSTRUCTIONS = 256


class MatrixInstructions(Candidate):
    """The product stays in registers; operands come from shared memory (by ldmatrix where rows of 16 bytes lie as it
    takes them) or from registers."""

    op: type[MatrixProduct] = Gemm
    name = "mma"
    instruction = "mma.sync"

    def legal(self, op: MatrixProduct, facts: Facts) -> Ok | Declined:
        known, atom = atoms(op, facts), choose_atom(op, facts)
        if not known:
            types = f"{op.a.dtype} by {op.b.dtype} into {op.c.dtype}"
            oldest = oldest_architecture(op)
            since = f"; sm_{oldest} and later have" if oldest is not None else ""
            return Declined(f"{architecture(facts.target).name} has no {self.instruction} of {types}{since}")
        if not facts.threads or facts.threads % WARP:
            return Declined(f"{self.instruction} works on whole warps, and the block has {facts.threads} threads")
        if op.c.buffer.scope != "fragment":
            where = f"{op.c.buffer.name} is in {op.c.buffer.scope} memory"
            return Declined(f"{where}; {self.instruction} accumulates in a fragment")
        if atom is None:
            return Declined(f"K is {op.k}, no multiple of the instruction's {known[-1].k}")
        split = _split(op, facts, atom)
        if split is None:
            return Declined(
                f"M={op.m}, N={op.n} cannot be covered by {facts.threads // WARP} warps (policy {op.policy}): "
                f"each owns a multiple of {atom.m} rows and 8 columns; adjust threads or the tile"
            )
        for region in (op.a, op.b, op.c):
            if region.buffer.scope not in ("fragment", "shared"):
                return Declined(f"{region.buffer.name} is neither a fragment nor a shared tile")
            if region.buffer.data is not None and region.buffer.scope == "fragment":
                return Declined(f"{region.buffer.name} is a view of a fragment, not the fragment itself")
            if region.tile_axes()[-2:] != (region.buffer.ndim - 2, region.buffer.ndim - 1):
                return Declined(f"the matrix in {region.buffer.name} is not made of its last two axes")
        for matrix in _matrices(op, atom, split):
            reason = matrix.unfit(facts)
            if reason:
                return Declined(reason)
        return Ok(op.m * op.n * op.k / (2048 * 4))

    def constraints(self, op: MatrixProduct, facts: Facts) -> Iterable[Constraint]:
        atom = choose_atom(op, facts)
        assert atom is not None
        split = _split(op, facts, atom)
        assert split is not None
        c, a, b = _matrices(op, atom, split)
        yield Constraint(op.c.buffer, c.fragment())
        for matrix in (a, b):
            buffer = matrix.region.buffer
            if buffer.scope == "fragment":
                yield Constraint(buffer, matrix.fragment())
            elif buffer.static_shape() is not None:
                yield Constraint(buffer, matrix_tile(buffer.static_shape() or (), buffer.dtype), "common")

    def lower(self, op: MatrixProduct, context: LowerContext) -> Stmt:
        return Emitter(op, context).emit()


class _Matrix:
    """An operand: which of its axes are outer (rows of A, columns of B) and depth, and how it is cut into atoms.

    Args:
        region: the tile.
        role: a, b or c.
        units: extent of an atom along each of the tile's two axes.
        shares: how many warps share the tile along each of them.
        flipped: whether the axes of a or b are the other way round.
    """

    def __init__(
        self, region: BufferRegion, role: str, atom: Atom, split: tuple[int, int], flipped: bool = False
    ) -> None:
        self.region, self.role, self.atom, self.split, self.flipped = region, role, atom, split, flipped
        units = {"a": (atom.m, atom.a_depth), "b": (atom.k, 8), "c": (atom.m, 8)}[role]
        shares = {"a": (split[0], 1), "b": (1, split[1]), "c": split}[role]
        self.units, self.shares = (units[::-1], shares[::-1]) if flipped else (units, shares)

    @property
    def in_registers(self) -> bool:
        return self.region.buffer.scope == "fragment"

    def extent(self, axis: int) -> int:
        """Of the buffer, along its last two axes."""
        return (self.region.buffer.static_shape() or (0, 0))[axis - 2]

    def unfit(self, facts: Facts) -> str:
        """Why a part of a fragment is no operand, or ""."""
        if not self.in_registers:
            return ""
        region, name = self.region, self.region.buffer.name
        if any(e != 1 for e in (region.buffer.static_shape() or ())[:-2]):
            return f"the fragment {name} has several matrices"
        for axis, (unit, share) in enumerate(zip(self.units, self.shares)):
            low, taken = region.mins[axis - 2], region.tile_extents()[axis - 2]
            if is_zero(low) and isinstance(taken, IntImm) and taken.value == self.extent(axis):
                continue
            if share > 1:
                return f"{share} warps share axis {axis} of the fragment {name}: a part of it would be some warps' only"
            if self.extent(axis) % unit or not facts.divides(unit, low):
                return f"the part of the fragment {name} does not begin at a multiple of {unit} along axis {axis}"
        return ""

    def fragment(self) -> Fragment:
        """Where the buffer lies for this use."""
        atom, split, (first, second) = self.atom, self.split, (self.extent(0), self.extent(1))
        if self.role == "c":
            found = product(first, second, split, atom.m)
        elif self.role == "a":
            m, k = (second, first) if self.flipped else (first, second)
            found = operand_a(m, k, split, atom.packed, self.flipped, atom.m, atom.a_parts)
        else:
            k, n = (second, first) if self.flipped else (first, second)
            found = operand_b(k, n, split, atom.packed, self.flipped, atom.b_parts)
        return _ranked(self.region, found)

    def atom_number(self, outer: Expr, inner: Expr) -> Expr:
        """The number of an atom in the buffer's registers: `outer` along rows of A and C or columns of B, `inner` along
        the other axis, both counted from the region's start."""
        axes = (1, 0) if self.flipped != (self.role == "b") else (0, 1)
        first, second = (
            binary("add", index, _quotient(self.region.mins[axis - 2], self.units[axis]))
            for index, axis in zip((outer, inner), axes)
        )
        return binary(
            "add", binary("mul", first, self.extent(axes[1]) // self.shares[axes[1]] // self.units[axes[1]]), second
        )

    def in_row_of_16_bytes(self, layout: Any, facts: Facts) -> bool:
        """Whether ldmatrix can load it: 16 bytes of neighbours lie together, along K or, as 16-bit elements, across."""
        bits = self.region.dtype.bits
        along_depth = self.flipped == (self.role == "b")
        if bits > 32 or not (along_depth or bits == 16) or not isinstance(layout, Layout):
            return False
        unit = 128 // bits
        if layout.vector_width(-1) % unit or layout.image[-1] % unit:
            return False
        return facts.divides(unit, self.region.mins[-1])


class Emitter:
    """One gemm: a loop over steps of K, in each the operands' atoms to registers, then all products."""

    def __init__(self, op: MatrixProduct, context: LowerContext) -> None:
        facts = context.facts
        atom = choose_atom(op, facts)
        assert atom is not None and facts.launch is not None
        split = _split(op, facts, atom)
        assert split is not None
        self.op, self.context, self.atom = op, context, atom
        self.c, self.a, self.b = _matrices(op, atom, split)
        self.rows, self.columns = op.m // split[0] // atom.m, op.n // split[1] // 8
        self.steps = op.k // atom.k
        thread = thread_index(facts.launch)
        self.lane = binary("floormod", thread, WARP)
        warp = binary("floordiv", thread, WARP)
        self.row = binary("mul", binary("floormod", warp, split[0]), op.m // split[0])
        self.column = binary("mul", binary("floordiv", warp, split[0]), op.n // split[1])
        self.a_registers = self._registers(self.a, self.rows * atom.a)
        self.b_registers = self._registers(self.b, self.columns * atom.b)

    def emit(self) -> Stmt:
        """The statements."""
        op = self.op
        own = _register_view(op.c.buffer, self.context.layouts[op.c.buffer])
        # A sum in float16 is rounded once, when the gemm is done.
        wide = accumulator_dtype(op.c.dtype)
        c = own
        if wide is not op.c.dtype:
            regs = self.context.layouts[op.c.buffer].regs
            c = self.context.allocate(f"{op.c.buffer.name}_sums", (regs,), wide)
        parts: list[Stmt] = []
        if op.clear_accum or c is not own:

            def start(slot: Expr) -> Stmt:
                value = const(0, wide) if op.clear_accum else cast(BufferLoad(own, (slot,)), wide)
                return BufferStore(c, value, (slot,), span=op.span)

            parts.append(self._each_sum(start))
        parts.append(self.every_step(c))
        if c is not own:

            def finish(slot: Expr) -> Stmt:
                return BufferStore(own, cast(BufferLoad(c, (slot,)), op.c.dtype), (slot,), span=op.span)

            parts.append(self._each_sum(finish))
        return seq(*parts, span=op.span)

    def every_step(self, c: Buffer) -> Stmt:
        """All steps of K."""
        step = Var("k_step")
        return self.over_steps(step, self.steps, seq(*self.loads(step), self.multiply(c, step)))

    def over_steps(self, step: Var, count: int, body: Stmt) -> Stmt:
        """A loop over steps of K, written out where there are few."""
        few = self.steps * self.rows * self.columns <= _UNROLLED_INSTRUCTIONS
        kind = "unroll" if few or self.a.in_registers or self.b.in_registers else "serial"
        return loop(step, count, body, kind)

    def loads(self, step: Expr) -> list[Stmt | None]:
        """Everything that one step of K needs, to registers."""
        return [self._load_a(step), self._load_b(step)]

    def instruction(self, c: AccessPtr, a: AccessPtr, b: AccessPtr, row: Expr, turn: int) -> Stmt:
        """One instruction on its registers, those of A being of the atom number `row`; `turn` is the number of the step
        among those that share what was loaded."""
        op = self.op
        return intrinsics.mma(c, a, b, self.atom.shape, op.a.dtype, op.b.dtype, c.buffer.dtype, span=op.span)

    def _registers(self, matrix: _Matrix, count: int) -> Buffer:
        buffer = matrix.region.buffer
        if matrix.in_registers:
            return _register_view(buffer, self.context.layouts[buffer])
        return self.context.allocate(f"{buffer.name}_registers", (count,), buffer.dtype)

    def _each_sum(self, body: Any) -> Stmt:
        """A loop over the registers of the product."""
        regs = self.context.layouts[self.op.c.buffer].regs
        slot = Var("slot")
        if regs == self.rows * self.columns * self.atom.c:
            return loop(slot, regs, body(slot), "unroll")
        i, j = Var("atom_m"), Var("atom_n")
        place = binary("add", binary("mul", self.c.atom_number(i, j), self.atom.c), slot)
        inner = loop(j, self.columns, loop(slot, self.atom.c, body(place), "unroll"), "unroll")
        return loop(i, self.rows, inner, "unroll")

    def multiply(self, c: Buffer, step: Expr, turn: int = 0) -> Stmt:
        """All instructions of a step."""
        atom = self.atom
        i, j = Var("atom_m"), Var("atom_n")
        a_atom: Expr = self.a.atom_number(i, step) if self.a.in_registers else i
        b_atom: Expr = self.b.atom_number(j, step) if self.b.in_registers else j
        product_of = self.instruction(
            pointer(c, binary("mul", self.c.atom_number(i, j), atom.c), atom.c, "rw"),
            pointer(self.a_registers, binary("mul", a_atom, atom.a), atom.a, "r"),
            pointer(self.b_registers, binary("mul", b_atom, atom.b), atom.b, "r"),
            i,
            turn,
        )
        return loop(i, self.rows, loop(j, self.columns, product_of, "unroll"), "unroll")

    def _load_a(self, step: Expr) -> Stmt | None:
        """The atoms of one step, below each other."""
        if self.a.in_registers:
            return None
        atom, i, depth = self.atom, Var("load_m"), binary("mul", step, self.atom.a_depth)
        row = binary("add", self.row, binary("mul", i, atom.m))
        if self._by_ldmatrix(self.a):
            count = atom.row_parts * atom.a_parts
            # Lanes whose matrix is not asked for must name places inside the tile all the same.
            matrix = _mod(_div(self.lane, 8), count)
            at = self._row_of_matrix(self.a, row, depth, _mod(matrix, atom.row_parts), _div(matrix, atom.row_parts))
            load = self._ldmatrix(self.a, self.a_registers, binary("mul", i, atom.a), at, count)
            return loop(i, self.rows, load, "unroll")
        q, e = Var("register"), Var("element")
        row = binary("add", row, binary("add", _div(self.lane, 4), binary("mul", _mod(q, atom.row_parts), 8)))
        k = self._k_of(depth, _div(q, atom.row_parts), e)
        return self._by_elements(self.a, self.a_registers, i, self.rows, atom.a, row, k, q, e)

    def _load_b(self, step: Expr) -> Stmt | None:
        """The atoms of one step, side by side."""
        if self.b.in_registers:
            return None
        atom, j, depth = self.atom, Var("load_n"), binary("mul", step, self.atom.k)
        if self._by_ldmatrix(self.b):
            # As many atoms an instruction as make four matrices.
            together = next(n for n in (4, 2, 1) if n * atom.b_parts <= 4 and self.columns % n == 0)
            column = binary("add", self.column, binary("mul", j, 8 * together))
            matrix = _mod(_div(self.lane, 8), together * atom.b_parts)
            at = self._row_of_matrix(self.b, column, depth, _div(matrix, atom.b_parts), _mod(matrix, atom.b_parts))
            start = binary("mul", j, atom.b * together)
            load = self._ldmatrix(self.b, self.b_registers, start, at, together * atom.b_parts)
            return loop(j, self.columns // together, load, "unroll")
        q, e = Var("register"), Var("element")
        column = binary("add", binary("add", self.column, binary("mul", j, 8)), _div(self.lane, 4))
        k = self._k_of(depth, q, e)
        return self._by_elements(self.b, self.b_registers, j, self.columns, atom.b, column, k, q, e)

    def _row_of_matrix(
        self, of: _Matrix, outer: Expr, depth: Expr, outer_part: Expr, depth_part: Expr
    ) -> tuple[Expr, Expr]:
        """(row or column, K) of the 16 bytes that a lane names: row `lane % 8` of a matrix, which lies `outer_part`
        times 8 and `depth_part` registers further."""
        along_depth = of.flipped == (of.role == "b")
        outer = binary("add", outer, binary("mul", outer_part, 8))
        depth = binary("add", depth, binary("mul", depth_part, 4 * self.atom.packed))
        line = _mod(self.lane, 8)
        return (binary("add", outer, line), depth) if along_depth else (outer, binary("add", depth, line))

    def _ldmatrix(self, of: _Matrix, registers: Buffer, start: Expr, at: tuple[Expr, Expr], count: int) -> Stmt:
        region, unit = of.region, 128 // of.region.dtype.bits
        source = AccessPtr(region.buffer, region.indices(_tile(of, *at)), const(unit, INT32), "r", span=self.op.span)
        target = pointer(registers, start, count * self.atom.packed, "w")
        across = of.flipped != (of.role == "b")
        return intrinsics.ldmatrix(target, source, count, across, span=self.op.span)

    def _by_elements(
        self,
        of: _Matrix,
        registers: Buffer,
        var: Var,
        count: int,
        elements: int,
        outer: Expr,
        depth: Expr,
        register: Var,
        element: Var,
    ) -> Stmt:
        """Each lane loads its elements one by one."""
        packed = self.atom.packed
        value = of.region.load(_tile(of, outer, depth))
        inside = binary("add", binary("mul", register, packed), element)
        slot = binary("add", binary("mul", var, elements), inside)
        store = BufferStore(registers, value, (slot,), span=self.op.span)
        inner = loop(register, elements // packed, loop(element, packed, store, "unroll"), "unroll")
        return loop(var, count, inner, "unroll")

    def _k_of(self, depth: Expr, part: Expr, element: Expr) -> Expr:
        """K of an element: four lanes hold neighbours, a register later so many further."""
        packed = self.atom.packed
        place = binary("mul", _mod(self.lane, 4), packed)
        inside = binary("add", binary("add", place, binary("mul", part, 4 * packed)), element)
        return binary("add", depth, inside)

    def _by_ldmatrix(self, matrix: _Matrix) -> bool:
        buffer = matrix.region.buffer
        layout = self.context.layouts.get(buffer)
        if layout is None and buffer.data is not None and buffer.offset is None:
            # A view as another type, whose tile lies row-major for it.
            layout = row_major(buffer.static_shape() or ())
        return matrix.in_row_of_16_bytes(layout, self.context.facts)


def _matrices(op: MatrixProduct, atom: Atom, split: tuple[int, int]) -> tuple[_Matrix, _Matrix, _Matrix]:
    """C, A and B."""
    return (
        _Matrix(op.c, "c", atom, split),
        _Matrix(op.a, "a", atom, split, op.transpose_a),
        _Matrix(op.b, "b", atom, split, op.transpose_b),
    )


def _split(op: MatrixProduct, facts: Facts, atom: Atom) -> tuple[int, int] | None:
    return warp_partition(op.m, op.n, (facts.threads or 0) // WARP, op.policy, atom.m) if facts.threads else None


def _ranked(region: BufferRegion, fragment: Fragment) -> Fragment:
    """A matrix's fragment for a tile with further axes of extent 1 in front."""
    extra = region.buffer.ndim - 2
    if extra == 0:
        return fragment
    domain = (*(1,) * extra, *fragment.domain)
    return Fragment(
        domain,
        fragment.threads,
        fragment.regs,
        fragment.replicas,
        lambda *i: fragment.place(i[extra:-1], i[-1]),
    )


def _register_view(buffer: Buffer, fragment: Any) -> Buffer:
    """A tile as the registers that a thread holds of it."""
    return Buffer(f"{buffer.name}_registers", (as_expr(fragment.regs),), buffer.dtype, "local", data=buffer)


def _tile(of: _Matrix, outer: Expr, depth: Expr) -> tuple[Expr, ...]:
    """Indices in the tile of what lies at a row of A or column of B, and K."""
    across = of.flipped != (of.role == "b")
    front = [const(0, INT32)] * (len(of.region.tile_extents()) - 2)
    return (*front, depth, outer) if across else (*front, outer, depth)


def pointer(buffer: Buffer, start: Expr, count: int, mode: str) -> AccessPtr:
    return AccessPtr(buffer, (start,), const(count, INT32), mode)


def loop(var: Var, count: int, body: Stmt, kind: str) -> Stmt:
    return For(var, const(0, INT32), const(count, INT32), kind, body, span=body.span)


def _quotient(low: Expr, unit: int) -> Expr:
    return const(low.value // unit, INT32) if isinstance(low, IntImm) else binary("floordiv", low, unit)


def _mod(value: Expr, count: int) -> Expr:
    return binary("floormod", value, count)


def _div(value: Expr, count: int) -> Expr:
    return binary("floordiv", value, count)
