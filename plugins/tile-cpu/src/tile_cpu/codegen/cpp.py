"""CpuKernelPrinter: a device function in form FLAT as a C++ function over `tile/tile.h`.

The grid is a parallel loop, a block is one call of its body on one thread, block-local buffers live in a per-thread
arena. Vectors print as
`tile::vec` operations with a mask object: `tile::full<W>` for whole vectors, `tile::part<W>` for a tail.
"""

from __future__ import annotations

from tile_core.codegen import CppPrinter, element_count, formatted
from tile_core.codegen.numbers import CPP_NUMBERS, conversion, holds_nibbles, nibble_pointer, to_tf32
from tile_core.errors import InternalError
from tile_core.ir import (
    SIDE_BY_SIDE,
    AccessPtr,
    Attr,
    Binary,
    Block,
    Broadcast,
    Buffer,
    BufferLoad,
    BufferStore,
    Call,
    Cast,
    Evaluate,
    Expr,
    For,
    IntImm,
    KernelLaunch,
    Node,
    PrimFunc,
    Ramp,
    Select,
    Seq,
    Shuffle,
    StringImm,
    is_one,
    is_zero,
    walk,
)

__all__ = ["CpuKernelPrinter", "needs_strands"]

# Buffers up to this many bytes are plain arrays on the stack, which the compiler can keep in registers.
_STACK_BYTES = 64
_DIVISIONS = ("div", "floordiv", "floormod", "truncdiv", "truncmod")


class CpuKernelPrinter(CppPrinter):
    """Prints one device function."""

    TYPES = {**{name: f"tile::{text}" for name, text in CPP_NUMBERS.items()}, **CppPrinter.TYPES, "tfloat32": "float"}

    def function(self, function: PrimFunc) -> str:
        """The function's text: its arena and the kernel, which returns 0 or the runtime's error number."""
        for name in function.name, "threads", "named_barriers":
            self._taken.add(name)
        launch = function.body
        if not isinstance(launch, KernelLaunch):
            raise InternalError("E-INTERNAL", f"device function {function.name} does not start with a launch")
        self.check_types(function, "CPU")
        self.arena = self._arena(function)
        packed = {p: None for p in function.params if isinstance(p, Buffer) and holds_nibbles(p)}
        parameters = []
        for param in function.params:
            ctype = "uint8_t" if param in packed else self.type_name(param.dtype)
            parameters.append(f"{ctype}{'*' if isinstance(param, Buffer) else ''} {self.name(param)}")
        self.open(f"int {function.name}({', '.join([*parameters, 'int threads'])}) {{", function.span)
        for buffer in packed:
            name = self.fresh(f"{buffer.name}_elements")
            ctype = nibble_pointer(self.type_name(buffer.dtype), True)
            self.line(f"const {ctype} {name}({self.name(buffer)});", buffer.span)
            self.alias(buffer, name)
        self.stmt(launch)
        self.close()
        return self.text()

    def _arena(self, function: PrimFunc) -> set[Buffer]:
        members = [
            b for n in walk(function.body) if isinstance(n, Block) for b in n.allocations if _bytes(b) > _STACK_BYTES
        ]
        if members:
            self.arena_type = self.fresh(f"{function.name}_arena")
            self.open(f"struct {self.arena_type} {{")
            for buffer in members:
                self.line(f"alignas(64) {self._storage(buffer)};", buffer.span)
            self.close("};")
        return set(members)

    def print_KernelLaunch(self, node: KernelLaunch) -> None:
        grid = [self.expr(g) for g in node.grid] + ["1"] * (3 - len(node.grid))
        indices = [f"{self.type_name(v.dtype)} {self.name(v)}" for v in node.grid_vars]
        indices += ["int"] * (3 - len(indices))
        extents = ", ".join(f"(int64_t){g}" for g in grid)
        # Blocks that meet have their tiles at the same time.
        meet = _meet(node)
        arena = self.fresh("arena")
        loop, indices = ("cooperative_for", [*indices, f"void* {arena}_memory"]) if meet else ("parallel_for", indices)
        self.open(f"return tile::{loop}({extents}, threads, [&]({', '.join(indices)}) {{", node.span)
        if _has_parts(node):
            self.line("tile::NamedBarriers named_barriers;")
        if self.arena:
            memory = f"static_cast<{self.arena_type}*>({arena}_memory)" if meet else f"tile::arena<{self.arena_type}>()"
            self.line(f"auto* {arena} = {memory};")
            for buffer in sorted(self.arena, key=self.name):
                place = f"{arena}->{self.name(buffer)}"
                if holds_nibbles(buffer):
                    place = f"{nibble_pointer(self.type_name(buffer.dtype), False)}({place})"
                self.alias(buffer, place)
        self.stmt(node.body)
        self.close(f"}}, {f'sizeof({self.arena_type})' if self.arena else '0'});")

    def allocate(self, buffer: Buffer) -> None:
        if buffer not in self.arena:
            align = "alignas(64) " if element_count(buffer) > 1 else ""
            self.line(f"{align}{self._storage(buffer)};")
            if holds_nibbles(buffer):
                # In parentheses: a statement that began with a type and a name would declare one.
                self.alias(buffer, f"({nibble_pointer(self.type_name(buffer.dtype), False)}({self.name(buffer)}))")

    def _storage(self, buffer: Buffer) -> str:
        """The declaration of a buffer's memory."""
        count = element_count(buffer)
        if holds_nibbles(buffer):
            return f"uint8_t {self.name(buffer)}[{buffer.dtype.storage_bytes(count)}]"
        return f"{self.type_name(buffer.dtype)} {self.name(buffer)}[{count}]"

    # Vectors.

    def _mask(self, lanes: int, predicate: Expr | None) -> tuple[str, str | None]:
        """The mask object and a further mask expression for a predicate over `lanes`."""
        if predicate is None:
            return f"tile::full<{lanes}>{{}}", None
        count = _tail_count(predicate)
        if count is not None:
            return f"tile::part<{lanes}>{{{self.expr(count)}}}", None
        if isinstance(predicate, Binary) and predicate.op == "and":
            count = _tail_count(predicate.a)
            if count is not None:
                return f"tile::part<{lanes}>{{{self.expr(count)}}}", self.expr(predicate.b)
        if predicate.dtype.lanes == 1:
            return f"tile::full<{lanes}>{{}}", self.expr(Broadcast(predicate, lanes))
        return f"tile::full<{lanes}>{{}}", self.expr(predicate)

    def expr_BufferLoad(self, node: BufferLoad) -> str:
        index = node.indices[0]
        if node.dtype.lanes == 1:
            loaded = f"{self.pointer(node.buffer)}[{self.expr(index)}]{'.get()' if holds_nibbles(node.buffer) else ''}"
            if node.predicate is not None:
                return f"({self.expr(node.predicate)} ? {loaded} : {self.type_name(node.dtype)}(0))"
            return loaded
        ctype = self.type_name(node.dtype.scalar)
        mask, further = self._mask(node.dtype.lanes, node.predicate)
        tail = f", {further}" if further else ""
        if isinstance(index, Ramp) and is_one(index.stride):
            text = f"tile::load<{ctype}>({mask}, {self.address(node.buffer, index.base)}{tail})"
        elif isinstance(index, Ramp):
            address, stride = self.address(node.buffer, index.base), self.expr(index.stride)
            text = f"tile::gather<{ctype}>({mask}, {address}, {stride}{tail})"
        else:
            text = f"tile::gather<{ctype}>({mask}, {self.pointer(node.buffer)}, {self.expr(index)}{tail})"
        return f"tile::to_mask({text})" if node.dtype.is_bool else text

    def print_BufferStore(self, node: BufferStore) -> None:
        index, lanes = node.indices[0], max(node.indices[0].dtype.lanes, node.value.dtype.lanes)
        value = self.expr(node.value)
        if lanes == 1:
            text = f"{self.pointer(node.buffer)}[{self.expr(index)}] = {value};"
            self.line(text if node.predicate is None else f"if ({self.expr(node.predicate)}) {text}", node.span)
            return
        if node.value.dtype.is_bool:
            value = f"tile::convert<bool>({value})"
        mask, further = self._mask(lanes, node.predicate)
        tail = f", {further}" if further else ""
        if isinstance(index, Ramp) and is_one(index.stride):
            self.line(f"tile::store({mask}, {self.address(node.buffer, index.base)}, {value}{tail});", node.span)
        elif isinstance(index, Ramp):
            address, stride = self.address(node.buffer, index.base), self.expr(index.stride)
            self.line(f"tile::scatter({mask}, {address}, {stride}, {value}{tail});", node.span)
        else:
            where = f"{self.pointer(node.buffer)}, {self.expr(index)}"
            self.line(f"tile::scatter({mask}, {where}, {value}{tail});", node.span)

    def expr_Ramp(self, node: Ramp) -> str:
        ctype = self.type_name(node.dtype.scalar)
        base, stride = self.expr(node.base), self.expr(node.stride)
        return f"tile::iota<{ctype}>(tile::full<{node.lanes}>{{}}, {base}, {stride})"

    def expr_Broadcast(self, node: Broadcast) -> str:
        lanes = node.dtype.lanes
        text = f"tile::broadcast<{self.type_name(node.value.dtype)}>(tile::full<{lanes}>{{}}, {self.expr(node.value)})"
        return f"tile::to_mask({text})" if node.dtype.is_bool else text

    def expr_Shuffle(self, node: Shuffle) -> str:
        vectors = ", ".join(
            self.expr(v) if v.dtype.lanes > 1 else f"tile::vec<{self.type_name(v.dtype)}, 1>({self.expr(v)})"
            for v in node.vectors
        )
        if len(node.indices) == 1:
            return f"tile::shuffle<{node.indices[0]}>({vectors})[0]"
        return f"tile::shuffle<{', '.join(map(str, node.indices))}>({vectors})"

    def expr_Select(self, node: Select) -> str:
        if node.condition.dtype.lanes == 1:
            return super().expr_Select(node)
        if node.dtype.is_bool:
            c, t, f = (self.expr(e) for e in (node.condition, node.true_value, node.false_value))
            return f"(({c} & {t}) | (!{c} & {f}))"
        parts = (self.expr(e) for e in (node.condition, node.true_value, node.false_value))
        return f"tile::select({', '.join(parts)})"

    # Operators.

    def _is_infix(self, node: Binary) -> bool:
        return not _one_divisor(node) and super()._is_infix(node)

    def binary_call(self, node: Binary) -> str:
        if _one_divisor(node):
            assert isinstance(node.b, Broadcast)
            # A scalar on the right lets the header multiply by its reciprocal and correct the remainder, and see powers
            # of two.
            if node.op == "div":
                return f"({self.expr(node.a)} / {self.expr(node.b.value)})"
            return f"tile::{node.op}({self.expr(node.a)}, {self.expr(node.b.value)})"
        if node.op in ("truncdiv", "truncmod") and node.dtype.lanes == 1 and node.dtype.bits >= 32:
            return f"({self.expr(node.a)} {'/' if node.op == 'truncdiv' else '%'} {self.expr(node.b)})"
        return super().binary_call(node)

    def expr_Cast(self, node: Cast) -> str:
        value, source, to = self.expr(node.value), node.value.dtype, node.dtype
        if to.is_bool and source.is_float and source.bits <= 8:
            return f"(tile::convert<float>({value}) != 0.0f)"
        if to.is_bool:
            return f"({value} != {self.type_name(source.scalar)}(0))"
        if source.is_bool and source.lanes > 1:
            value = f"tile::convert<bool>({value})"
        if to.scalar.name == "tfloat32":
            return to_tf32(source, value)
        return f"tile::convert<{self.type_name(to.scalar)}>({value})"

    def call_convert(self, node: Call) -> str:
        value, *random = (self.expr(a) for a in node.args[1:])
        if node.args[1].dtype.is_bool and node.args[1].dtype.lanes > 1:
            value = f"tile::convert<bool>({value})"
        return conversion(node, self.type_name(node.dtype.scalar), value, random[0] if random else None)

    def call_reinterpret(self, node: Call) -> str:
        value = self.expr(node.args[0])
        if node.args[0].dtype.is_bool and node.args[0].dtype.lanes > 1:
            value = f"tile::convert<bool>({value})"
        text = f"tile::reinterpret<{self.type_name(node.dtype.scalar)}, {node.dtype.lanes}>({value})"
        return f"tile::to_mask({text})" if node.dtype.is_bool and node.dtype.lanes > 1 else text

    def call_infinity(self, node: Call) -> str:
        return f"{self.type_name(node.dtype.scalar)}(INFINITY)"

    def call_cpu_gemm(self, node: Call) -> str:
        given = dict(node.annotations)
        flags = [_flag(given["trans_a"]), _flag(given["trans_b"])]
        sizes = [str(given[k]) for k in ("m", "n", "k", "lda", "ldb", "ldc")]
        arguments = [self.expr(a) for a in node.args[:3]]
        ahead = given.get("prefetch", ())
        if ahead:
            slices = []
            for (rows, columns), pointer, pitch in zip(ahead, node.args[3::2], node.args[4::2]):
                slices.append(
                    f"tile::prefetch_slice<{rows}, {columns}>({self.expr(pointer)}, {self.expr(pitch)}, step, steps);"
                )
            arguments.append(f"[&](int step, auto steps) TILE_INLINE {{ {' '.join(slices)} }}")
        template = ", ".join([*flags, *sizes, _flag(given["clear"])])
        return f"tile::gemm<{template}>({', '.join(arguments)})"

    def call_cpu_copy_transpose(self, node: Call) -> str:
        given = dict(node.annotations)
        dst, src = self.expr(node.args[0]), self.expr(node.args[1])
        pitch = self.expr(node.args[2]) if len(node.args) == 3 else str(given["lds"])
        return f"tile::copy_transpose<{given['rows']}, {given['columns']}>({dst}, {given['ldd']}, {src}, {pitch})"

    def call_cpu_worth_grouping(self, node: Call) -> str:
        return f"tile::worth_grouping(threads, {', '.join(self.expr(a) for a in node.args)})"

    def call_cpu_reduce(self, node: Call) -> str:
        kind, source, count = node.args
        if not isinstance(kind, StringImm) or not isinstance(source, AccessPtr):
            raise InternalError("E-INTERNAL", "cpu.reduce takes a kind and a pointer", span=node.span)
        ctype = self.type_name(source.buffer.dtype)
        return f"tile::reduce_{kind.value}<tile::lanes<{ctype}>>({self.expr(source)}, {self.expr(count)})"

    def call_sync_part(self, node: Call) -> str:
        return f"named_barriers.sync({', '.join(self.expr(a) for a in node.args)})"

    def call_arrive_part(self, node: Call) -> str:
        return f"named_barriers.arrive({', '.join(self.expr(a) for a in node.args)})"

    # Statements.

    def print_Attr(self, node: Attr) -> None:
        if node.key != SIDE_BY_SIDE:
            super().print_Attr(node)
            return
        for number, part in enumerate(node.body.stmts if isinstance(node.body, Seq) else (node.body,)):
            if number:
                self.indent -= 1
            self.open("}, [&] {" if number else "if (!tile::side_by_side(named_barriers, [&] {", node.span)
            self.stmt(part)
        self.close("})) return;")

    def call_device_print(self, node: Call) -> str:
        return f"tile::device_print({', '.join(formatted(node.args, self.expr))})"

    def print_Evaluate(self, node: Evaluate) -> None:
        if isinstance(node.value, Call) and node.value.op == "device_assert":
            holds, *pieces = node.value.args
            # The block ends here: what follows may rely on the condition.
            failed = f"tile::assert_failed({', '.join(formatted(pieces, self.expr))})"
            self.line(f"if (!({self.expr(holds)})) {{ {failed}; return; }}", node.span)
            return
        super().print_Evaluate(node)

    def loop_pragmas(self, node: For) -> list[str]:
        if node.kind != "unroll":
            return super().loop_pragmas(node)
        factor = node.annotation("unroll_factor")
        if factor is None and isinstance(node.extent, IntImm):
            factor = min(node.extent.value, 64)
        return [f"#pragma GCC unroll {factor}"] if factor and factor > 1 else []


def needs_strands(function: PrimFunc) -> bool:
    """Whether a device function has blocks or threads that wait for each other."""
    return _meet(function.body) or _has_parts(function.body)


def _meet(node: Node) -> bool:
    return any(isinstance(n, Call) and n.op == "sync_grid" for n in walk(node))


def _has_parts(node: Node) -> bool:
    return any(isinstance(n, Attr) and n.key == SIDE_BY_SIDE for n in walk(node))


def _one_divisor(node: Binary) -> bool:
    """Whether a vector is divided by one scalar."""
    return node.op in _DIVISIONS and isinstance(node.b, Broadcast) and node.b.value.dtype.lanes == 1


def _bytes(buffer: Buffer) -> int:
    return element_count(buffer) * buffer.dtype.bytes


def _flag(value: bool) -> str:
    return "true" if value else "false"


def _tail_count(predicate: Expr) -> Expr | None:
    """`n` when the predicate is the canonical tail: ramp(0, 1) < broadcast(n)."""
    if not isinstance(predicate, Binary) or predicate.op != "lt":
        return None
    left, right = predicate.a, predicate.b
    if isinstance(left, Ramp) and is_zero(left.base) and is_one(left.stride) and isinstance(right, Broadcast):
        return right.value
    return None
