"""`Kernel`: a compiled kernel that is called with tensors, and what can be asked about it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TextIO

from tile_core.errors import OptionError, declare_codes
from tile_core.plugin.api import Artifact
from tile_core.target import Target

from .arguments import call_error
from .signature import KernelParam, Signature

if TYPE_CHECKING:
    from tile_core.ir import PrimFunc

    from .profile import Profiler, TensorSupplyType

__all__ = ["Kernel", "choice_text"]

declare_codes({"E-KERNEL-SOURCE": "a kernel has no source or library of the kind asked for"})


class Kernel:
    """Made by `compile` and `jit`.

    ``kernel(*inputs)`` takes an argument for each input parameter, in order or by name, and returns what `out_idx`
    names: one
    tensor, a list of several, or None. Shapes, types, strides and devices are checked by the kernel itself.

    Args:
        artifact: what compiling gave.
        entry: the callable that the execution backend built.
        execution_backend: its name.
        key: the artifact's name in the caches.
        origin: ``compiled`` or ``disk``: where it came from, for people.
    """

    def __init__(
        self, artifact: Artifact, entry: Callable[..., Any], execution_backend: str, key: str, origin: str
    ) -> None:
        self.artifact = artifact
        self.execution_backend = execution_backend
        self.key = key
        self.origin = origin
        self.signature = Signature(artifact.function)
        self.entry = entry

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Runs the kernel.

        Raises:
            ArgumentError: an argument does not fit; the error shows the parameter's line.
        """
        if kwargs:
            args = self._in_order(args, kwargs)
        return self.entry(*args)

    def __repr__(self) -> str:
        params = ", ".join(map(str, self.params))
        return f"<Kernel {self.name}({params}) for {self.target.kind} through {self.execution_backend}>"

    @property
    def name(self) -> str:
        return self.signature.name

    @property
    def target(self) -> Target:
        """What it is compiled for, with every attribute resolved."""
        return self.artifact.target

    @property
    def params(self) -> tuple[KernelParam, ...]:
        """Every parameter, inputs and outputs, in the order of the source."""
        return self.signature.params

    @property
    def out_idx(self) -> tuple[int, ...]:
        """Positions of the parameters that the kernel allocates and returns."""
        return self.signature.out_idx

    @property
    def prim_func(self) -> PrimFunc:
        """The traced function, before any pass."""
        return self.artifact.function

    @property
    def kernel_source(self) -> str:
        return self.get_kernel_source()

    @property
    def host_source(self) -> str:
        return self.get_host_source()

    def script(self, spans: bool = False) -> str:
        """The traced function as text; with `spans`, source lines as comments."""
        return self.prim_func.script(spans=spans)

    def get_kernel_source(self) -> str:
        """The generated device source. Where host and device share a file, that file."""
        return self._source("kernel")

    def get_host_source(self) -> str:
        """The generated host source. Where host and device share a file, that file."""
        return self._source("host")

    def show_source(self, which: Literal["kernel", "host", "both"] = "kernel", file: TextIO | None = None) -> None:
        """Prints the generated source to `file` (standard output)."""
        for kind in self._kinds(which):
            print(self._source(kind), file=file or sys.stdout)

    def export_sources(self, kernel_path: str | Path | None = None, host_path: str | Path | None = None) -> None:
        """Writes the generated sources to the given files; folders are made.

        Raises:
            OptionError: neither path is given.
        """
        if kernel_path is None and host_path is None:
            raise OptionError(
                "E-KERNEL-SOURCE", "export_sources: no path given", help="pass kernel_path, host_path or both"
            )
        for kind, path in (("kernel", kernel_path), ("host", host_path)):
            if path is not None:
                _write(path, self._source(kind).encode())

    def export_library(self, path: str | Path) -> None:
        """Writes the compiled library: it exports the entry by the tvm-ffi C ABI, for C++ or ``tvm_ffi.load_module``.

        Raises:
            OptionError: the artifact has no library.
        """
        for name, content in self.artifact.binaries.items():
            if name.endswith(".so"):
                _write(path, content if isinstance(content, bytes) else Path(content).read_bytes())
                return
        raise OptionError(
            "E-KERNEL-SOURCE",
            f"{self.name}: there is no library for {self.target}",
            facts=(f"binaries: {', '.join(self.artifact.binaries) or 'none'}",),
        )

    def explain(self) -> str:
        """What the compiler chose for every tile operation, what it declined and why, what became of pipelined loops
        (stages, versions of buffers with the lines that cause them), and which options had no effect here."""
        lines = [f"{self.name} for {self.target} through {self.execution_backend}"]
        lines += [choice_text(choice) for choice in self.artifact.choices] or ["no tile operation had a choice"]
        lines += [str(line) for line in self.artifact.notes.get("pipelines") or ()]
        inert = self.artifact.notes.get("inert_options") or ()
        if inert:
            lines.append(f"options without effect here: {', '.join(map(str, inert))}")
        lines += [f"note: {text}" for text in self.artifact.notes.get("diagnostics") or ()]
        return "\n".join(lines)

    def get_profiler(self, tensor_supply_type: TensorSupplyType | None = None) -> Profiler:
        """A profiler that makes its inputs as `tensor_supply_type` says (default Auto) on the target's device."""
        from .profile import Profiler, TensorSupplyType

        device = "cuda" if self.target.kind == "cuda" else "cpu"
        return Profiler(self, self.signature, tensor_supply_type or TensorSupplyType.Auto, device)

    def _source(self, kind: str) -> str:
        sources = self.artifact.sources
        named = [text for name, text in sources.items() if name.startswith(kind)]
        if named:
            return "\n".join(named)
        if len(sources) == 1:
            return next(iter(sources.values()))
        raise OptionError(
            "E-KERNEL-SOURCE",
            f"{self.name}: there is no {kind} source for {self.target}",
            facts=(f"sources: {', '.join(sources) or 'none'}",),
        )

    def _kinds(self, which: str) -> tuple[str, ...]:
        if which not in ("kernel", "host", "both"):
            raise OptionError(
                "E-KERNEL-SOURCE", f"show_source: which={which!r}", facts=("allowed: kernel, host, both",)
            )
        if which == "both" and len(self.artifact.sources) == 1:
            return ("kernel",)
        return ("kernel", "host") if which == "both" else (which,)

    def _in_order(self, args: Sequence[Any], named: Mapping[str, Any]) -> tuple[Any, ...]:
        inputs = self.signature.inputs
        values = dict(zip([param.name for param in inputs], args))
        problem = None
        for name, value in named.items():
            if name in values:
                problem = f"{name} is given twice"
            elif name not in {param.name for param in inputs}:
                problem = f"there is no input {name}"
            values[name] = value
        missing = [param.name for param in inputs if param.name not in values]
        if missing:
            problem = problem or f"{', '.join(missing)} not given"
        if problem is not None or len(args) > len(inputs):
            raise call_error(self.signature, problem or f"takes {len(inputs)} arguments, got {len(args) + len(named)}")
        return tuple(values[param.name] for param in inputs)


def choice_text(choice: Any) -> str:
    """What was chosen for one tile operation, where it stands, and why the others were not; kept on disk as this
    text."""
    if isinstance(choice, str):
        return choice
    place = f" at {choice.span!r}" if choice.span is not None else ""
    lines = [f"T.{choice.op.name}{place}: {choice.taken} (cost {choice.cost:g})"]
    lines += [f"    {name}: {reason}" for name, reason in choice.considered if name != choice.taken]
    return "\n".join(lines)


def _write(path: str | Path, content: bytes) -> None:
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(content)
