"""Values of elements, as text: `Values.value(target, places)` for a tile's element at some places."""

from __future__ import annotations

from .maker import Maker
from .program import Tile

__all__ = ["Values"]


class Values(Maker):
    """A maker that has tiles of one shape, vectors of it, and two tensors X and Y of the same rank to read from."""

    shape: tuple[int, ...] = ()
    tiles: list[Tile]
    vectors: list[Tile]
    scalars: tuple[str, ...] = ()
    grid_axes: tuple[str, ...] = ()
    """For each axis of the tensors the block index that it is divided by, or ""."""

    def value(self, target: Tile, places: list[str]) -> str:
        """A value of the target's type, small where it is a float."""
        return self.bounded(self.expression(target, places, 2), target.dtype)

    def expression(self, target: Tile, places: list[str], depth: int) -> str:
        """An expression of the target's type; its parts are of that type, too."""
        if depth == 0 or self.chance(0.2):
            return self.leaf(target, places)
        if target.dtype == "bool":
            return self.condition(places, target)
        if self.chance(0.2):
            return self._choice(target, places, depth)
        make = self._float if target.is_float else self._integer
        return make(target, places, depth)

    def _choice(self, target: Tile, places: list[str], depth: int) -> str:
        a, b = (self.expression(target, places, depth - 1) for _ in range(2))
        condition = self.condition(places, target)
        form = self.one(("T.if_then_else({c}, {a}, {b})", "T.Select({c}, {a}, {b})", "({a} if {c} else {b})"))
        return form.format(a=a, b=b, c=condition)

    def _float(self, target: Tile, places: list[str], depth: int) -> str:
        dtype = target.dtype
        op = self.one(("+", "-", "max", "min", "*", "neg", "floor", "ceil", "trunc", "abs", "clamp", "/", "round"))
        a = self.expression(target, places, depth - 1)
        if op in ("max", "min"):
            return f"T.{op}({a}, {self.expression(target, places, depth - 1)})"
        if op in ("floor", "ceil", "trunc", "abs", "round"):
            return f"T.{op}({a})"
        if op == "clamp":
            return f'T.clamp({a}, T.cast(-2, "{dtype}"), T.cast(3, "{dtype}"))'
        if op == "neg":
            return f"(-{a})"
        if op == "*":
            return f"({self.leaf(target, places)} * {self.leaf(target, places)})"
        if op == "/":  # by a power of two, so that nothing but the exponent changes
            return f'({self.leaf(target, places)} / T.cast({self.one((1, 2, 4))}, "{dtype}"))'
        return f"({a} {op} {self.expression(target, places, depth - 1)})"

    def _integer(self, target: Tile, places: list[str], depth: int) -> str:
        dtype = target.dtype
        op = self.one(("+", "-", "*", "max", "min", "//", "%", "&", "|", "^", ">>", "<<", "truncdiv", "truncmod",
                       "abs", "~", "popcount"))  # fmt: skip
        a = self.expression(target, places, depth - 1)
        if op in ("max", "min"):
            return f"T.{op}({a}, {self.expression(target, places, depth - 1)})"
        if op in ("truncdiv", "truncmod"):
            return f'T.{op}({a}, T.cast({self.one((3, 7))}, "{dtype}"))'
        if op in ("//", "%", ">>", "<<"):
            return f'({a} {op} T.cast({self.one((1, 2, 3, 5))}, "{dtype}"))'
        if op == "abs":
            return f"T.abs({a})" if dtype[0] == "i" else a
        if op == "~":
            return f"(~{a})"
        if op == "popcount":
            return f'T.cast(T.popcount(T.cast({a}, "{self.one(("int32", "uint32", "int64"))}")), "{dtype}")'
        if op == "*":
            return f"({self.leaf(target, places)} * {self.leaf(target, places)})"
        return f"({a} {op} {self.expression(target, places, depth - 1)})"

    def leaf(self, target: Tile, places: list[str]) -> str:
        """A value of the target's type: an element of a tile, a vector or a tensor, a constant, an index."""
        dtype = target.dtype
        choice = self.random.random()
        others = [t for t in self.tiles if t is not target]
        if choice < 0.28 or not others:
            return target.at(places)
        if choice < 0.55:
            other = self.one(others)
            where = places
            if other.scope == "shared" and self.chance(0.4):
                where = [
                    f"({p} * {self.one((1, 2, 3))} + {self.one((0, 1, 5))}) % {e}" for p, e in zip(places, self.shape)
                ]
            elif other.scope == "shared" and len(self.shape) == 2 and self.chance(0.2):
                # Across the diagonal.
                where = [f"({p}) % {e}" for p, e in zip(reversed(places), self.shape)]
            return f'T.cast({other.at(where)}, "{dtype}"{self.rounding(other.dtype, dtype)})'
        if choice < 0.65 and self.vectors:
            axis = self.random.randrange(len(self.vectors))
            vector = self.vectors[axis]
            where = places[:axis] + places[axis + 1 :]
            return f'T.cast({self.bounded(vector.at(where), vector.dtype)}, "{dtype}")'
        if choice < 0.8:
            return f'T.cast({self.outer(self.one("XY"), places)}, "{dtype}")'
        if choice < 0.85 and self.scalars:
            return f'T.cast({self.one(self.scalars)}, "{dtype}")'
        if choice < 0.92:
            index = f"({' + '.join(places)}) % {self.one((3, 5, 7))}"
            return f'T.cast({index}, "{dtype}")'
        return self.constant(dtype)

    def rounding(self, source: str, target: str) -> str:
        """Options of a conversion, at times, where its result is exact enough to have any."""
        if source == target or not self.chance(0.15) or "bool" in (source, target):
            return ""
        from tile_core.casts import cast_rule
        from tile_core.dtypes import DType

        rule = cast_rule(DType(source), DType(target))
        modes = [m for m in rule.roundings if m != "rs"]
        text = f', round="{self.one(modes)}"' if modes else ""
        return text + (", sat=False" if rule.takes_saturation and self.chance(0.3) else "")

    def outer(self, tensor: str, places: list[str]) -> str:
        """The tensor's element that belongs to the places of a tile, or one beside it, perhaps outside the tensor."""
        where = []
        for axis, place in enumerate(places):
            block = self.grid_axes[axis]
            shift = self.one(("", " - 1", " + 2"))
            where.append(f"{block} * {self.shape[axis]} + {place}{shift}" if block else place)
        return f"{tensor}[{', '.join(where)}]"

    def condition(self, places: list[str], target: Tile) -> str:
        """A condition on an element or a place."""
        first = self._comparison(places, target)
        if self.chance(0.2):
            word = self.one((" and ", " or "))
            return f"({first}{word}{self._comparison(places, target)})"
        return f"(not {first})" if self.chance(0.1) else first

    def _comparison(self, places: list[str], target: Tile) -> str:
        op = self.one(("<", "<=", ">", ">=", "==", "!="))
        if self.chance(0.4) and target.dtype != "bool":
            return f"({target.at(places)} {op} {self.constant(target.dtype)})"
        if self.chance(0.15):
            return f"({self.one((0, 1, 3))} <= {self.one(places)} < {self.one((2, 8, 30))})"
        modulus = self.one((2, 3, 5))
        place = self.one([*places, "bx"])
        return f"(({place}) % {modulus} {op} {self.random.randrange(modulus)})"

    def uniform(self) -> str:
        """A condition that is the same for all threads of a block."""
        return self.one(("bx % 2 == 0", "by < 1", "bx + by > 1", "counter < 2", "(bx * 3 + 1) // 2 == 2"))
