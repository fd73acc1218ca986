"""Fragment: which thread holds each element of a tile, and in which of its registers.

An element may be held several times (replicas); all copies hold equal values. Like a layout, a fragment *means* its
table, so non-power-of-two tiles and odd thread counts are nothing special.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any, overload

from ..errors import CompileError, declare_codes
from ..ir import Expr, structural_equal
from ..ir.values import register_value
from ..source import Span
from .maps import apply_map, flat_index, make_map, static_extents, unflatten

__all__ = ["Fragment"]

declare_codes(
    {
        "E-FRAGMENT-RANGE": "a fragment sends an element to a thread or register that it does not have",
        "E-FRAGMENT-SLOT": "a fragment puts two elements in one register of one thread",
    }
)

Forward = Callable[..., Any]


class Fragment:
    """Distribution of a tile over threads and their registers; a value: equal tables make equal fragments.

    ``Fragment(domain, threads, regs, replicas, forward)`` states everything, with forward: (index …, replica) →
    (thread, register).
    ``Fragment(shape, forward_fn)`` and the other forms of the language derive the counts: `forward_fn` gives (thread,
    register),
    or `forward_thread_fn` the thread and `forward_index_fn` the register; with ``replicate`` above 1 they take the
    replica as last argument
    (`forward_index_fn` does not). Without a register function, the elements of a thread are numbered in row-major
    order.

    Raises:
        CompileError: extents are no positive constants, a function is no index map, a thread or register is outside
            its count, or two elements
            share a register of a thread.
    """

    __slots__ = ("_pair", "domain", "forward", "regs", "replicas", "threads")

    @overload
    def __init__(self, domain: Any, threads: int, regs: int, replicas: int, forward: Any) -> None: ...

    @overload
    def __init__(
        self,
        shape: Any,
        forward_fn: Forward | None = None,
        forward_thread_fn: Forward | None = None,
        replicate: int = 1,
        forward_index_fn: Forward | None = None,
    ) -> None: ...

    def __init__(self, *given: Any, **named: Any) -> None:
        what = "T.Fragment"
        domain = given[0] if given else named.pop("domain", None) or named.pop("shape", None)
        given = given[1:]
        self.domain: tuple[int, ...] = static_extents(domain, what)
        self._pair: Any = None
        if "threads" in named or (given and isinstance(given[0], int)):
            stated = dict(zip(("threads", "regs", "replicas", "forward"), given)) | named
            (self.threads,) = static_extents(stated.pop("threads"), f"{what}(threads)")
            (self.regs,) = static_extents(stated.pop("regs"), f"{what}(regs)")
            (self.replicas,) = static_extents(stated.pop("replicas", 1), f"{what}(replicas)")
            self._trace(stated.pop("forward"))
            counts: tuple[int, int] | None = (self.threads, self.regs)
        else:
            self._from_language(dict(zip(_LANGUAGE_ARGUMENTS, given)) | named)
            counts = None
        self._check(counts)

    def _trace(self, forward: Any) -> None:
        self.forward, _, _ = make_map(forward, (*self.domain, self.replicas), "T.Fragment")
        if len(self.forward.results) != 2:
            raise CompileError(
                "E-LAYOUT-MAP",
                "T.Fragment: the function does not map indices to a thread and a register",
                facts=[f"it returned {len(self.forward.results)} values"],
                help="return (thread, register)",
            )

    def _from_language(self, named: dict[str, Any]) -> None:
        unknown = named.keys() - set(_LANGUAGE_ARGUMENTS)
        if unknown:
            raise TypeError(f"T.Fragment takes no argument {', '.join(sorted(unknown))}")
        (self.replicas,) = static_extents(named.get("replicate", 1), "T.Fragment(replicate)")
        replicated = self.replicas > 1
        both: Any
        thread: Any
        register: Any
        both, thread, register = (named.get(k) for k in ("forward_fn", "forward_thread_fn", "forward_index_fn"))
        if (both is None) == (thread is None):
            raise CompileError(
                "E-LAYOUT-MAP",
                "T.Fragment needs forward_fn or forward_thread_fn, and not both",
                help="give forward_fn=lambda i, j: (thread, register), or forward_thread_fn and forward_index_fn",
            )

        def forward(*indices: Any) -> Any:
            arguments = indices if replicated else indices[:-1]
            if both is not None:
                return both(*arguments)
            place = register(*indices[:-1]) if register is not None else 0
            place = place[0] if isinstance(place, (tuple, list)) and len(place) == 1 else place
            return thread(*arguments), place

        self._trace(forward)
        if both is None and register is None:
            self._number_registers(thread, replicated)

    def _number_registers(self, thread: Forward, replicated: bool) -> None:
        """Registers by counting: the elements that a thread holds, in row-major order, when that is an expression."""
        import numpy as np

        owners = self.tables()[0].reshape(prod(self.domain), self.replicas)
        first = owners[:, 0]
        ranks = np.zeros(first.shape, dtype=np.int64)
        seen: dict[int, int] = {}
        for element, owner in enumerate(first):
            ranks[element] = seen.get(int(owner), 0)
            seen[int(owner)] = int(ranks[element]) + 1
        found = _as_digits(ranks.reshape(self.domain))
        if found is None:
            raise CompileError(
                "E-LAYOUT-MAP",
                "T.Fragment: the registers cannot be derived from the threads",
                facts=["the elements of a thread, counted in row-major order, have no regular positions"],
                help="give forward_index_fn=lambda i, j: register",
            )
        self._pair = None
        self._trace(lambda *i: (thread(*(i if replicated else i[:-1])), found(*i[:-1])))

    def _check(self, counts: tuple[int, int] | None) -> None:
        threads, regs = self.tables()
        if counts is None:
            self.threads, self.regs = int(threads.max()) + 1, int(regs.max()) + 1
        for table, count, what in ((threads, self.threads, "thread"), (regs, self.regs, "register")):
            if int(table.min()) < 0 or int(table.max()) >= count:
                import numpy as np

                bad = np.argwhere((table < 0) | (table >= count))[0]
                raise CompileError(
                    "E-FRAGMENT-RANGE",
                    f"T.Fragment: an element goes to a {what} that does not exist",
                    facts=[
                        f"element {tuple(int(v) for v in bad[:-1])}, replica {int(bad[-1])}: "
                        f"{what} {int(table[tuple(bad)])}",
                        f"there are {count}",
                    ],
                    help="correct the function, or state more",
                )

    # ---- as a value

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, Fragment):
            return NotImplemented
        mine = (self.domain, self.threads, self.regs, self.replicas)
        if mine != (other.domain, other.threads, other.regs, other.replicas):
            return False
        if structural_equal(self.forward, other.forward):
            return True
        return all(a is b for a, b in zip(self.tables(), other.tables()))

    def __hash__(self) -> int:
        return hash((self.domain, self.threads, self.regs, self.replicas))

    def __repr__(self) -> str:
        return self.script()

    def script(self) -> str:
        """The fragment as the language writes it."""
        names = ", ".join(v.name for v in self.forward.vars)
        thread, register = self.forward.results
        counts = f"{self.threads}, {self.regs}, {self.replicas}"
        return f"T.Fragment({self.domain}, {counts}, lambda {names}: ({thread!r}, {register!r}))"

    # ---- the map

    @property
    def ndim(self) -> int:
        return len(self.domain)

    def place(self, indices: Sequence[Any], replica: Any = 0) -> tuple[Expr, Expr]:
        """(thread, register) that hold the element at `indices`."""
        thread, register = apply_map(self.forward, (*indices, replica))
        return thread, register

    def thread(self, indices: Sequence[Any], replica: Any = 0) -> Expr:
        """The thread that holds the element at `indices`."""
        return self.place(indices, replica)[0]

    def register(self, indices: Sequence[Any], replica: Any = 0) -> Expr:
        """The register in which the thread holds it."""
        return self.place(indices, replica)[1]

    def tables(self) -> tuple[Any, Any]:
        """(threads, registers): read-only int64 arrays of shape (*domain, replicas)."""
        if self._pair is None:
            from .tables import intern, tabulate

            found = tabulate(self.forward.vars, self.forward.results, (*self.domain, self.replicas))
            self._pair = intern(found[0]), intern(found[1])
        return self._pair

    # ---- questions

    @property
    def slots_distinct(self) -> bool:
        """Whether no register of a thread holds two elements, nor an element twice."""
        import numpy as np

        threads, regs = self.tables()
        return int(np.unique(threads * self.regs + regs).size) == threads.size

    @property
    def full(self) -> bool:
        """Whether every register of every thread holds an element."""
        return self.slots_distinct and prod(self.domain) * self.replicas == self.threads * self.regs

    @property
    def replicated_everywhere(self) -> bool:
        """Whether every thread holds every element."""
        import numpy as np

        threads = self.tables()[0].reshape(prod(self.domain), self.replicas)
        return self.replicas >= self.threads and all(np.unique(row).size == self.threads for row in threads)

    def require_distinct(self, name: str = "the tile", span: Span | None = None) -> Fragment:
        """The fragment itself.

        Raises:
            CompileError: two elements share a register of a thread; both are named.
        """
        if self.slots_distinct:
            return self
        import numpy as np

        threads, regs = self.tables()
        slots = (threads * self.regs + regs).ravel()
        order = np.argsort(slots, kind="stable")
        repeat = int(np.argmax(slots[order][1:] == slots[order][:-1]))
        pair = [tuple(int(v) for v in np.unravel_index(order[repeat + k], threads.shape)) for k in (0, 1)]
        slot = int(slots[order[repeat]])
        raise CompileError(
            "E-FRAGMENT-SLOT",
            f"the fragment of {name} puts two elements in one register",
            span=span,
            facts=[
                f"elements {pair[0][:-1]} (replica {pair[0][-1]}) and {pair[1][:-1]} (replica {pair[1][-1]})",
                f"both are in register {slot % self.regs} of thread {slot // self.regs}",
            ],
            help="make (thread, register) different for every element and replica",
        )

    def contains(self, other: Fragment) -> bool:
        """Whether each thread that holds an element in `other` holds it here too: what `other` computes with needs no
        exchange."""
        import numpy as np

        if self.domain != other.domain:
            return False
        size = prod(self.domain)
        count = max(self.threads, other.threads)
        held = np.zeros((size, count), dtype=bool)
        wanted = np.zeros((size, count), dtype=bool)
        rows = np.arange(size)[:, None]
        held[rows, self.tables()[0].reshape(size, -1)] = True
        wanted[rows, other.tables()[0].reshape(size, -1)] = True
        return bool((held | ~wanted).all())

    def vector_width(self, axis: int = -1) -> int:
        """The most neighbours along `axis` that one thread holds in consecutive registers, in aligned groups."""
        import numpy as np

        axis %= len(self.domain)
        extent = self.domain[axis]
        threads, regs = (np.moveaxis(t, axis, -1).reshape(-1, extent) for t in self.tables())
        for width in range(extent, 1, -1):
            if extent % width:
                continue
            owner, register = threads.reshape(-1, width), regs.reshape(-1, width)
            same = (owner == owner[:, :1]).all() and (np.diff(register, axis=1) == 1).all()
            if same and (register[:, 0] % width == 0).all():
                return width
        return 1

    # ---- algebra

    def repeat(self, axis: int, factor: int, on_threads: bool = False) -> Fragment:
        """`factor` copies side by side along `axis`: in further registers of the same threads, or on further
        threads."""
        axis %= len(self.domain)
        extent = self.domain[axis]
        domain = tuple(e * factor if a == axis else e for a, e in enumerate(self.domain))

        def forward(*indices: Any) -> tuple[Any, Any]:
            inside = [i % extent if a == axis else i for a, i in enumerate(indices[:-1])]
            thread, register = self.place(inside, indices[-1])
            copy = indices[axis] // extent
            return (thread + copy * self.threads, register) if on_threads else (thread, register + copy * self.regs)

        threads, regs = (self.threads * factor, self.regs) if on_threads else (self.threads, self.regs * factor)
        return Fragment(domain, threads, regs, self.replicas, forward)

    def reshape(self, domain: Any) -> Fragment:
        """The fragment seen through another shape of equally many elements, in row-major order."""
        extents = static_extents(domain, "reshape")
        if prod(extents) != prod(self.domain):
            raise CompileError(
                "E-LAYOUT-COMPOSE",
                "the shapes hold different numbers of elements",
                facts=[f"fragment of {self.domain}: {prod(self.domain)}", f"asked for {extents}: {prod(extents)}"],
                help="give a shape of equally many elements",
            )

        def forward(*given: Any) -> tuple[Any, Any]:
            return self.place(unflatten(flat_index(given[:-1], extents), self.domain), given[-1])

        return Fragment(extents, self.threads, self.regs, self.replicas, forward)

    def replicate(self, factor: int) -> Fragment:
        """The same tile held by `factor` groups of threads."""

        def forward(*indices: Any) -> tuple[Any, Any]:
            thread, register = self.place(indices[:-1], indices[-1] % self.replicas)
            return thread + indices[-1] // self.replicas * self.threads, register

        return Fragment(self.domain, self.threads * factor, self.regs, self.replicas * factor, forward)

    def draw(self, format: str = "text") -> str:
        """A picture of the fragment: each element with its thread and register."""
        from .draw import draw

        return draw(self, format)


_LANGUAGE_ARGUMENTS = ("forward_fn", "forward_thread_fn", "replicate", "forward_index_fn")


def _as_digits(ranks: Any) -> Callable[..., Any] | None:
    """A table of numbers as a sum over digits of its indices, or None."""
    import numpy as np

    from .invert import digit_sums

    sums = digit_sums(np.asarray(ranks))
    if sums is None:
        return None
    return lambda *indices: sum(
        (index // place % count * stride for index, own in zip(indices, sums) for stride, count, place in own), 0
    )


def _fragment_fields(fragment: Fragment) -> tuple[tuple[str, Any], ...]:
    return (
        ("domain", fragment.domain),
        ("threads", fragment.threads),
        ("regs", fragment.regs),
        ("replicas", fragment.replicas),
        ("forward", fragment.forward),
    )


register_value(Fragment, "Fragment", _fragment_fields, Fragment)
