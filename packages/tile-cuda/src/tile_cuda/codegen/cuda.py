"""CudaKernelPrinter: a device function in form FLAT as a CUDA kernel over ``tile_cuda.h``.

The text has no inline assembly and no attribute of one compiler: NVRTC compiles it with the device header and the
host's C++ compiler with the emulation header. Shared memory is one dynamic arena whose buffers are pointers into it;
per-thread buffers are plain arrays; each synchronisation carries its ordinal, ``TILE_SYNC(k)``.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field

from tile_core.casts import constant_bits
from tile_core.codegen import CppPrinter, element_count, formatted
from tile_core.codegen.numbers import CPP_NUMBERS, holds_nibbles, nibble_pointer
from tile_core.errors import CompileError, InternalError, declare_codes
from tile_core.ir import (
    AccessPtr,
    Attr,
    Block,
    Broadcast,
    Buffer,
    BufferLoad,
    BufferStore,
    Call,
    Expr,
    FloatImm,
    For,
    IntImm,
    KernelLaunch,
    PrimFunc,
    Ramp,
    Select,
    Shuffle,
    Stmt,
    StringImm,
    find_intrinsic,
    is_one,
    walk,
)
from tile_core.source import Span

from ..device import find_device_function
from ..device.row import has_device_function
from ..device.table_atomic import ATOMIC_OPERATORS
from ..predicates import split_predicate
from ..target import Architecture

__all__ = ["ARENA_ALIGNMENT", "CudaKernelPrinter", "SharedBuffer"]

declare_codes(
    {
        "E-CUDA-FEATURE": "a kernel uses what its architecture does not have",
        "E-CUDA-THREADS": "a kernel asks for more threads than a block can have",
    }
)

# CUDA programming guide, technical specifications by compute capability: the same for all.
_MOST_THREADS = 1024

# What TILE_SHARED promises: enough for any swizzle.
ARENA_ALIGNMENT = 1024
_BUFFER_ALIGNMENT = 128
# The vector types that one access moves.
_ACCESS_BYTES = (1, 2, 4, 8)
# The table's names of what the language calls otherwise.
_DEVICE_NAMES = {
    "sync_named": "bar_sync",
    "arrive_named": "bar_arrive",
    "async_copy": "cp_async",
    "async_commit": "cp_async_commit",
    "async_wait": "cp_async_wait",
}
_NEW_LINE = StringImm("\n")
_RESERVED = """
    threadIdx blockIdx blockDim gridDim warpSize INFINITY NAN INT32_MIN INT64_MIN fp16 bf16 e4m3 e5m2 emu half
    """.split()  # noqa: SIM905 - a table


@dataclass(frozen=True)
class SharedBuffer:
    """Where a shared buffer lies in the arena, in bytes; `storage` is the one that it is another view of, or itself."""

    name: str
    offset: int
    bytes: int
    storage: str


@dataclass
class Ordinals:
    """Numbers of a file's synchronisations: (ordinal, line in the kernel's text, name)."""

    found: list[tuple[int, int, str]] = field(default_factory=list)
    first: int = 0

    def take(self, line: int, name: str) -> int:
        """The next number."""
        self.found.append((self.first + len(self.found), line, name))
        return self.found[-1][0]


class CudaKernelPrinter(CppPrinter):
    """Prints one device function; `shared`, `shared_bytes`, `threads` and `ordinals` are what it found on the way."""

    TYPES = {
        **{name: f"tile::{text}" for name, text in CPP_NUMBERS.items()},
        **CppPrinter.TYPES,
        "float16": "fp16",
        "bfloat16": "bf16",
        "tfloat32": "float",
        "float8_e4m3fn": "e4m3",
        "float8_e5m2": "e5m2",
    }

    def __init__(self, arch: Architecture, first_ordinal: int = 0) -> None:
        super().__init__()
        self.arch = arch
        self.ordinals = Ordinals(first=first_ordinal)
        self.shared: list[SharedBuffer] = []
        self.lines_of: dict[str, list[int]] = {}
        self.shared_bytes = 0
        self.threads = 1
        self.eviction = ""
        self._taken.update(_RESERVED)

    def function(self, function: PrimFunc) -> str:
        """The kernel's text.

        Raises:
            CompileError: it uses what the architecture does not have (E-CUDA-FEATURE), or more than 1024 threads
                (E-CUDA-THREADS).
        """
        launch = function.body
        if not isinstance(launch, KernelLaunch):
            raise InternalError("E-INTERNAL", f"device function {function.name} does not start with a launch")
        self.check_types(function, "CUDA")
        if any(extent > 1 for extent in launch.cluster):
            raise CompileError(
                "E-CUDA-FEATURE",
                f"{function.name} asks for clusters of {'x'.join(map(str, launch.cluster))} blocks, which this version "
                "does not launch",
                span=launch.span,
                help="leave out cluster_dims",
            )
        self._taken.add(function.name)
        self.threads = math.prod(_constant(t, "a number of threads") for t in launch.threads) if launch.threads else 1
        if self.threads > _MOST_THREADS:
            raise CompileError(
                "E-CUDA-THREADS",
                f"{function.name} asks for {self.threads} threads a block; a block has at most {_MOST_THREADS}",
                span=launch.span,
                help=f"write T.Kernel(…, threads={_MOST_THREADS}) or fewer, and let each thread do more",
            )
        roots = [_root(p) for p in function.params if isinstance(p, Buffer)]
        overlapping = {_root(b) for b in launch.annotation("overlapping", ())}
        # A tensor over an address may be part of a parameter.
        addresses = any(isinstance(n, Attr) and n.key == "address" for n in walk(launch))
        restrict = " __restrict__" if len(set(roots)) == len(roots) and not addresses else ""
        parameters = [
            f"{self._pointee(p)}*{'' if _root(p) in overlapping else restrict} {self.name(p)}"
            if isinstance(p, Buffer)
            else f"const {self.type_name(p.dtype)} {self.name(p)}"
            for p in function.params
        ]
        blocks = launch.annotation("min_blocks_per_sm")
        bounds = f"{self.threads}, {blocks}" if blocks else f"{self.threads}"
        head = f'extern "C" __global__ void __launch_bounds__({bounds}) {function.name}'
        self.open(f"{head}({', '.join(parameters)}) {{", function.span)
        for p in function.params:
            if isinstance(p, Buffer) and holds_nibbles(p):
                self._name_nibbles(p, True)
        self._shared_memory(launch)
        self.stmt(launch)
        self.close()
        return self.text()

    def _pointee(self, buffer: Buffer) -> str:
        return "uint8_t" if holds_nibbles(buffer) else self.type_name(buffer.dtype)

    def _name_nibbles(self, buffer: Buffer, visible: bool) -> None:
        """Declares what indexes the four-bit elements at an address that has the buffer's name."""
        address, name = self.name(buffer), self.fresh(f"{buffer.name}_elements")
        ctype = nibble_pointer(self.type_name(buffer.dtype), visible)
        self.line(f"const {ctype} {name}({address});", buffer.span)
        self.alias(buffer, name)

    def print_KernelLaunch(self, node: KernelLaunch) -> None:
        for builtin, variables in (("blockIdx", node.grid_vars), ("threadIdx", node.thread_vars)):
            for axis, var in zip("xyz", variables):
                ctype = self.type_name(var.dtype)
                self.line(f"const {ctype} {self.name(var)} = ({ctype}){builtin}.{axis};", node.span)
        self.stmt(node.body)

    def print_Attr(self, node: Attr) -> None:
        if node.key == "eviction":
            outer, self.eviction = self.eviction, node.subject
            self.stmt(node.body)
            self.eviction = outer
            return
        if node.key != "address" or node.value is None:
            super().print_Attr(node)
            return
        tensor: Buffer = node.subject
        ctype, name = self.type_name(tensor.dtype), self.name(tensor)
        count = "*".join(f"(uint64_t)({self.expr(e)})" for e in tensor.shape) or "1"
        if tensor.strides:
            steps = [f"(uint64_t)({self.expr(e)} - 1)*({self.expr(s)})" for e, s in zip(tensor.shape, tensor.strides)]
            count = " + ".join(["1", *steps])
        address = f"(uint64_t)({self.expr(node.value)})"
        self.line(f'{ctype}* {name} = tile::tensor_at<{ctype}>("{name}", {address}, {count});', node.span)
        self.stmt(node.body)

    # Storage.

    def pointer(self, buffer: Buffer) -> str:
        """The address of a buffer's first element; the lines that name a shared buffer are kept."""
        text = super().pointer(buffer)
        if text in self.lines_of:
            self.lines_of[text].append(len(self.lines) + 1)
        return text

    def _shared_memory(self, launch: KernelLaunch) -> None:
        """Declares the arena and a pointer for each buffer in it."""
        owners = [b for n in walk(launch) if isinstance(n, Block) for b in n.allocations if b.memory.level == "block"]
        owners = [b for b in owners if b.scope != "fragment"]
        places: dict[Buffer, int] = {}
        for buffer in owners:
            align = max(_BUFFER_ALIGNMENT, buffer.align)
            places[buffer] = -(-self.shared_bytes // align) * align
            self.shared_bytes = places[buffer] + buffer.dtype.storage_bytes(element_count(buffer))
        if not owners:
            return
        arena = owners[0] if len(owners) == 1 and owners[0].dtype.name == "uint8" else None
        name = self.name(arena) if arena is not None else self.fresh("shared_memory")
        self.line(f"TILE_SHARED({name}, {self.shared_bytes});")
        for buffer, offset in places.items():
            if buffer is not arena:
                self._shared_pointer(buffer, name, offset, arena)
        views = {b: None for b in _buffers(launch) if b.data is not None and _root(b) in places}
        for view in views:
            offset = _view_offset(view)
            if offset is not None:
                self._shared_pointer(view, name, places[_root(view)] + offset, arena)

    def _shared_pointer(self, buffer: Buffer, base: str, offset: int, arena: Buffer | None) -> None:
        ctype, name = self._pointee(buffer), self.name(buffer)
        self.line(f"{ctype}* {name} = ({ctype}*)({base} + {offset});", buffer.span)
        if holds_nibbles(buffer):
            self._name_nibbles(buffer, True)
        if buffer.static_shape() is None:
            return
        owner = buffer
        while owner.data is not None and owner.data is not arena:
            owner = owner.data
        size = buffer.dtype.storage_bytes(element_count(buffer))
        self.shared.append(SharedBuffer(name, offset, size, self.name(owner)))

    def allocate(self, buffer: Buffer) -> None:
        if buffer.memory.level == "block" and buffer.scope != "fragment":
            return
        self.line(
            f"TILE_LOCAL({self.type_name(buffer.dtype)}, {self.name(buffer)}, {element_count(buffer)});", buffer.span
        )

    # Loads and stores.

    def _in_registers(self, buffer: Buffer) -> bool:
        return _root(buffer).memory.level == "thread" or _root(buffer).scope == "fragment"

    def _is_access(self, buffer: Buffer, lanes: int) -> bool:
        """Whether consecutive elements are moved by whole accesses; what is in registers is named one by one."""
        count, rest = divmod(buffer.dtype.storage_bits * lanes, 8)
        return rest == 0 and not self._in_registers(buffer) and (count in _ACCESS_BYTES or count % 16 == 0)

    def _is_cached(self, buffer: Buffer) -> bool:
        """Whether accesses say what the second-level cache should do."""
        return bool(self.eviction) and _root(buffer).memory.level == "device" and not holds_nibbles(buffer)

    def expr_BufferLoad(self, node: BufferLoad) -> str:
        index, lanes, buffer = node.indices[0], node.dtype.lanes, node.buffer
        ctype = self.type_name(buffer.dtype)
        if lanes == 1:
            loaded = f"{self.pointer(buffer)}[{self.expr(index)}]{'.get()' if holds_nibbles(buffer) else ''}"
            if self._is_cached(buffer):
                loaded = f"tile::load_cached<tile::{self.eviction}, {ctype}, 1>({self.address(buffer, index)})[0]"
            return loaded if node.predicate is None else f"({self.expr(node.predicate)} ? {loaded} : {ctype}(0))"
        whole, mask = split_predicate(node.predicate)
        if isinstance(index, Ramp):
            address, stride = self.address(buffer, index.base), self.expr(index.stride)
            if mask is not None:
                return f"tile::gather_if<{ctype}, {lanes}>({self.expr(mask)}, {address}, {stride})"
            if is_one(index.stride) and self._is_access(buffer, lanes):
                if self._is_cached(buffer):
                    loaded = f"tile::load_cached<tile::{self.eviction}, {ctype}, {lanes}>({address})"
                    zeros = f"tile::broadcast<{ctype}, {lanes}>({ctype}(0))"
                    return loaded if whole is None else f"({self.expr(whole)} ? {loaded} : {zeros})"
                guard = f"{self.expr(whole)}, " if whole is not None else ""
                return f"tile::load{'_if' if guard else ''}<{ctype}, {lanes}>({guard}{address})"
            text = f"tile::gather<{ctype}, {lanes}>({address}, {stride})"
        elif mask is not None:
            return (
                f"tile::gather_at_if<{ctype}, {lanes}>({self.expr(mask)}, {self.pointer(buffer)}, {self.expr(index)})"
            )
        else:
            text = f"tile::gather_at<{ctype}, {lanes}>({self.pointer(buffer)}, {self.expr(index)})"
        if whole is None:
            return text
        return f"({self.expr(whole)} ? {text} : tile::broadcast<{ctype}, {lanes}>({ctype}(0)))"

    def print_BufferStore(self, node: BufferStore) -> None:
        index, buffer = node.indices[0], node.buffer
        lanes = max(index.dtype.lanes, node.value.dtype.lanes)
        value = self.expr(node.value)
        if lanes == 1:
            text = f"{self.pointer(buffer)}[{self.expr(index)}] = {value};"
            if self._is_cached(buffer):
                ctype = self.type_name(buffer.dtype)
                held = f"tile::broadcast<{ctype}, 1>({ctype}({value}))"
                text = f"tile::store_cached<tile::{self.eviction}>({self.address(buffer, index)}, {held});"
            self.line(text if node.predicate is None else f"if ({self.expr(node.predicate)}) {text}", node.span)
            return
        if node.value.dtype.lanes == 1:
            value = f"tile::broadcast<{self.type_name(buffer.dtype)}, {lanes}>({value})"
        whole, mask = split_predicate(node.predicate)
        guard = f"if ({self.expr(whole)}) " if whole is not None else ""
        masked = f"{self.expr(mask)}, " if mask is not None else ""
        suffix = "_if" if mask is not None else ""
        if isinstance(index, Ramp):
            address, stride = self.address(buffer, index.base), self.expr(index.stride)
            if is_one(index.stride) and mask is None and self._is_access(buffer, lanes):
                cached = f"_cached<tile::{self.eviction}>" if self._is_cached(buffer) else ""
                text = f"tile::store{cached}({address}, {value});"
            else:
                text = f"tile::scatter{suffix}({masked}{address}, {stride}, {value});"
        else:
            text = f"tile::scatter_at{suffix}({masked}{self.pointer(buffer)}, {self.expr(index)}, {value});"
        self.line(guard + text, node.span)

    # Vectors.

    def expr_Ramp(self, node: Ramp) -> str:
        ctype = self.type_name(node.dtype.scalar)
        return f"tile::iota<{ctype}, {node.lanes}>({self.expr(node.base)}, {self.expr(node.stride)})"

    def expr_Broadcast(self, node: Broadcast) -> str:
        return f"tile::broadcast<{self.type_name(node.value.dtype)}, {node.dtype.lanes}>({self.expr(node.value)})"

    def expr_Shuffle(self, node: Shuffle) -> str:
        parts = [
            self.expr(v) if v.dtype.lanes > 1 else f"tile::broadcast<{self.type_name(v.dtype)}, 1>({self.expr(v)})"
            for v in node.vectors
        ]
        text = parts[0]
        for part in parts[1:]:
            text = f"tile::join({text}, {part})"
        if len(node.indices) == 1:
            return f"{text}[{node.indices[0]}]"
        return f"tile::shuffle<{', '.join(map(str, node.indices))}>({text})"

    def expr_Select(self, node: Select) -> str:
        if node.condition.dtype.lanes == 1:
            return super().expr_Select(node)
        parts = (self.expr(e) for e in (node.condition, node.true_value, node.false_value))
        return f"tile::select({', '.join(parts)})"

    # Values.

    def expr_FloatImm(self, node: FloatImm) -> str:
        bits = _bits(node)
        if bits is None:
            return super().expr_FloatImm(node)
        # As bits: the conversion instruction would be executed.
        return f"tile::bit_cast<{self.type_name(node.dtype)}>(uint16_t({bits:#06x}))"

    def call_infinity(self, node: Call) -> str:
        return self.expr(FloatImm(math.inf, node.dtype))

    def call_vector_reduce(self, node: Call) -> str:
        kind, value = node.args
        assert isinstance(kind, StringImm)
        name = {"add": "sum"}.get(kind.value, kind.value)
        return f"tile::vector_reduce<tile::op_{name}>({self.expr(value)})"

    def call_device_print(self, node: Call) -> str:
        return f"tile::device_print({', '.join(formatted([*node.args, _NEW_LINE], self.expr))})"

    def call_device_assert(self, node: Call) -> str:
        holds, *pieces = node.args
        return f"tile::device_assert({', '.join([self.expr(holds), *formatted([*pieces, _NEW_LINE], self.expr)])})"

    def call_sync_threads(self, node: Call) -> str:
        return self.intrinsic(Call("cuda.sync_threads", (), node.dtype, span=node.span))

    def intrinsic(self, node: Call) -> str:
        if node.op.startswith("cuda."):
            return self._device_call(node)
        if node.op.startswith("atomic_"):
            return self._atomic(node, node.op.removeprefix("atomic_").removeprefix("fetch_"))
        name = _DEVICE_NAMES.get(node.op, node.op)
        if has_device_function(name):
            # What the language has and the table carries out.
            return self._device_call(node.with_(op=f"cuda.{name}"))
        return super().intrinsic(node)

    def _device_call(self, node: Call) -> str:
        row = find_device_function(node)
        if self.arch.number < row.minimum:
            raise CompileError(
                "E-CUDA-FEATURE",
                f"{row.intrinsic} needs sm_{row.minimum}, and the target is {self.arch.name}",
                span=node.span,
                help=f"compile for cuda -arch=sm_{row.minimum} or newer",
            )
        given = dict(node.annotations) | dict(zip(row.arguments, node.args))
        template = [self._template_argument(given[key]) for key in row.template]
        arguments = [self.expr(a) for name, a in zip(row.arguments, node.args) if name not in row.template]
        if row.is_synchronisation:
            arguments.insert(0, f"TILE_SYNC({self.ordinals.take(len(self.lines) + 1, row.name)})")
        head = f"tile::{row.name}<{', '.join(template)}>" if template else f"tile::{row.name}"
        return f"{head}({', '.join(arguments)})"

    def _template_argument(self, value: object) -> str:
        if isinstance(value, IntImm):
            value = value.value
        if isinstance(value, bool):
            return "true" if value else "false"
        if isinstance(value, int):
            return str(value)
        if isinstance(value, str):
            return f"tile::op_{value}"
        raise InternalError("E-INTERNAL", f"{value!r} is no template argument: it must be a constant")

    def _atomic(self, node: Call, kind: str) -> str:
        target = node.args[0]
        values = [self.expr(a) for a in node.args[1:] if not isinstance(a, StringImm)]
        if not isinstance(target, AccessPtr):
            raise InternalError("E-INTERNAL", f"{node.op} needs an address", span=node.span)
        ctype = self.type_name(target.buffer.dtype)
        if self._in_registers(target.buffer):
            place = f"{self.pointer(target.buffer)}[{self.expr(target.indices[0])}]"
            return f"{place} = tile::op_{ATOMIC_OPERATORS[kind]}()({place}, {ctype}({values[0]}))"
        text = f"tile::atomic_{kind}<{ctype}>({', '.join([self.expr(target), *values])})"
        order = node.args[-1].value if isinstance(node.args[-1], StringImm) else "relaxed"
        before = "tile::fence_device(), " if order in ("release", "acq_rel", "seq_cst") else ""
        after = ", tile::fence_device()" if order in ("acquire", "consume", "acq_rel", "seq_cst") else ""
        if not (before or after):
            return text
        if node.dtype.name != "void":
            # The fence comes after the access and before its value is used.
            rest = " tile::fence_device();" if after else ""
            return f"[&] {{ {before.replace(',', ';')}{ctype} found = {text};{rest} return found; }}()"
        return f"({before}{text}{after})"

    # Statements.

    def loop_pragmas(self, node: For) -> list[str]:
        factor = node.annotation("unroll_factor")
        if factor:
            return [f"#pragma unroll {factor}"]
        if node.kind == "unroll":
            return ["#pragma unroll"]
        # The compiler unrolls loops of few iterations by itself: for one with matrix instructions and copies in it that
        # doubles the time it takes (measured: 0.67 against 0.45 s for a 128x128x32 gemm) and gains nothing.
        return ["#pragma unroll 1"] if _has_device_calls(node) else []


def _has_device_calls(node: For) -> bool:
    return any(
        isinstance(n, Call) and n.op.startswith("cuda.") and not find_intrinsic(n.op).pure for n in walk(node.body)
    )


def _bits(node: FloatImm) -> int | None:
    """The bits of a 16-bit constant."""
    return constant_bits(node.value, node.dtype) if node.dtype.name in ("float16", "bfloat16") else None


def _root(buffer: Buffer) -> Buffer:
    while buffer.data is not None:
        buffer = buffer.data
    return buffer


def _view_offset(buffer: Buffer) -> int | None:
    """Bytes from the start of the buffer that owns the storage, or None when they are no constant."""
    total = 0
    while buffer.data is not None:
        if buffer.offset is not None:
            if not isinstance(buffer.offset, IntImm):
                return None
            total += buffer.offset.value * buffer.data.dtype.storage_bits // 8
        buffer = buffer.data
    return total


def _buffers(node: Stmt) -> Iterator[Buffer]:
    for item in walk(node):
        if isinstance(item, (BufferLoad, BufferStore, AccessPtr)):
            yield item.buffer


def _constant(value: Expr, what: str) -> int:
    if not isinstance(value, IntImm):
        raise InternalError("E-INTERNAL", f"{what} is no constant: {value!r}", span=value.span)
    return value.value


def line_numbers(line_map: list[tuple[int, Span]], shift: int) -> dict[str, dict[str, object]]:
    """The line map as JSON has it: generated line → place in the kernel's source. Of several places the last counts."""
    return {
        str(line + shift): {"file": span.source, "line": span.line, "column": span.column + 1}
        for line, span in line_map
    }
