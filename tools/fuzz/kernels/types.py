"""Every element type, on values of all kinds: conversions in every mode, arithmetic, bits, vectors."""

from __future__ import annotations

from tile_core.casts import cast_rule, number_types
from tile_core.dtypes import DType

from .maker import Maker
from .program import Program

__all__ = ["Types"]

NAMES = tuple(d.name for d in number_types())
OFTEN = ("float32", "float16", "bfloat16", "int32", "float8_e4m3fn", "float8_e5m2", "float4_e2m1fn", "int4", "uint4")
UNSIGNED = {8: "uint8", 16: "uint16", 32: "uint32", 64: "uint64"}


class Types(Maker):
    """F and G hold any values of one type; each output is made of them in one step."""

    def program(self) -> Program:
        self.source = self.one(OFTEN if self.chance(0.5) else NAMES)
        self.block_size = self.one((32, 64, 128, 256))
        self.length = self.block_size * self.one((1, 2, 3)) - self.one((0, 0, 2, 8))
        rows = self.one((0, 0, 3))
        self.first = "by, " if rows else ""
        extent = str(self.length) if DType(self.source).bits == 4 else self.size("n", self.length)
        outputs = []
        self.window = f"[{self.first}bx * {self.block_size} : bx * {self.block_size} + {self.block_size}]"
        self.place = f"[{self.first}bx * {self.block_size} + i]"
        scope = self.one(("shared", "fragment", "global"))
        self.where = "F" if scope == "global" else "x"
        if scope != "global":
            self.line(f'x = T.alloc_{scope}(({self.block_size},), "{self.source}")')
            self.line(f"T.copy(F{self.window}, x)")
        for number in range(self.one((1, 2, 3, 4))):
            make = self.one(
                (self.convert, self.convert, self.convert, self.copied, self.combine, self.bits, self.lanes)
            )
            dtype = make(f"Z{number}")
            outputs.append((f"Z{number}", dtype))
        extents = f"({rows}, {extent})" if rows else f"({extent},)"
        fixed = f"({rows}, {self.length})" if rows else f"({self.length},)"
        parameters = [f'{name}: T.Tensor({extents}, "{self.source}")' for name in "FG"]
        parameters.append(f'R: T.Tensor({fixed}, "uint32")')
        for name, dtype in outputs:
            parameters.append(f'{name}: T.Tensor({fixed if DType(dtype).bits == 4 else extents}, "{dtype}")')
        grid = f"T.ceildiv({extent}, {self.block_size})"
        threads = self.one((32, 64, 128, 96))
        return self.finish(parameters, f"with T.Kernel({grid}, {max(rows, 1)}, threads={threads}) as (bx, by):")

    def here(self) -> str:
        """The element, in memory or on chip."""
        return f"F{self.place}" if self.where == "F" else "x[i]"

    def parallel(self, store: str) -> None:
        with self.block(f"for i in T.Parallel({self.block_size}):"):
            self.line(store)

    def convert(self, output: str) -> str:
        """A cast, in any of the modes that the pair has."""
        target = self.one(OFTEN if self.chance(0.5) else NAMES)
        options = ""
        if target != self.source and self.chance(0.6):
            rule = cast_rule(DType(self.source), DType(target))
            if rule.roundings:
                mode = self.one(rule.roundings)
                options = f', round="{mode}"' + (f", rbits=R{self.place}" if mode == "rs" else "")
            if rule.takes_saturation and self.chance(0.4):
                options += ", sat=False"
        value = f'T.cast({self.here()}, "{target}"{options})'
        if self.chance(0.5):
            self.parallel(f"{output}{self.place} = {value}")
            return target
        name = self.name("y")
        self.line(f'{name} = T.alloc_{self.one(("shared", "fragment"))}(({self.block_size},), "{target}")')
        self.parallel(f"{name}[i] = {value}")
        self.line(f"T.copy({name}, {output}{self.window})")
        return target

    def copied(self, output: str) -> str:
        """A copy that converts, perhaps in steps."""
        target = self.one(OFTEN if self.chance(0.5) else NAMES)
        name = self.name("y")
        middle = self.one((target, self.source))
        self.line(f'{name} = T.alloc_{self.one(("shared", "fragment"))}(({self.block_size},), "{middle}")')
        self.line(f"T.copy({'F' + self.window if self.where == 'F' else 'x'}, {name})")
        self.line(f"T.copy({name}, {output}{self.window})")
        return target

    def combine(self, output: str) -> str:
        """One operation, which rounds once."""
        a, b = self.here(), f"G{self.place}"
        if self.source == "bool":
            self.parallel(
                f"{output}{self.place} = {self.one((f'{a} and {b}', f'{a} or {b}', f'not {a}', f'{a} != {b}'))}"
            )
            return "bool"
        ops = [f"{a} + {b}", f"{a} - {b}", f"{a} * {b}", f"T.max({a}, {b})", f"T.min({a}, {b})"]
        ops += [f"T.if_then_else({a} < {b}, {a}, {b})", f"T.Select({a} == {b}, {b}, {a})"]
        if "float" in self.source:
            ops += [f"T.abs({a})", f"T.floor({a})", f"T.trunc({a})", f"-{a}"]
        else:
            ops += [
                f"{a} & {b}",
                f"{a} ^ {b}",
                f'{a} // T.cast(3, "{self.source}")',
                f'{a} % T.cast(5, "{self.source}")',
            ]
            ops += [f'{a} >> T.cast(1, "{self.source}")', f'{a} << T.cast(2, "{self.source}")', f"~{a}"]
        self.parallel(f"{output}{self.place} = {self.one(ops)}")
        return self.source

    def bits(self, output: str) -> str:
        """The bits of a value as an integer."""
        target = UNSIGNED.get(DType(self.source).bits)
        if target is None or self.source in ("bool", "tfloat32", target):
            return self.convert(output)
        self.parallel(f'{output}{self.place} = T.reinterpret({self.here()}, "{target}")')
        return target

    def lanes(self, output: str) -> str:
        """Four neighbours at once, as a vector that is converted whole."""
        target = self.one(("float16", "float32", "bfloat16", "int8", self.source))
        bad = ("bool", "tfloat32")
        if self.first or self.length % 4 or self.source in bad or target in bad or self.sizes:
            return self.convert(output)
        given, made = self.name("a"), self.name("b")
        self.line(f'{given} = T.view(F, ({self.length // 4},), "{self.source}x4")')
        self.line(f'{made} = T.view({output}, ({self.length // 4},), "{target}x4")')
        quarter = self.block_size // 4
        with self.block(f"for i in T.Parallel({quarter}):"):
            at = f"[bx * {quarter} + i]"
            value = (
                f'T.cast({given}{at}, "{target}x4")' if target != self.source else f"T.max({given}{at}, {given}{at})"
            )
            self.line(f"{made}{at} = {value}")
        return target
