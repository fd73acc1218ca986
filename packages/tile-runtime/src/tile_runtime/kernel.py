"""`Kernel`: a compiled kernel that is called with tensors, and what can be asked about it."""

from __future__ import annotations

import pickle
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TextIO

from tile_core.api import compile
from tile_core.errors import OptionError, declare_codes
from tile_core.plugin import registry
from tile_core.plugin.api import Artifact, resolve
from tile_core.target import Target

from .arguments import call_error
from .export import header, write_file
from .identity import outside_graphs
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
        again: compiles the same kernel with further pass options.
    """

    # A slot, so that the extension finds it: it makes calls of kernels go straight to the entry
    # (`backends/packed_call.cpp`, hasten). What `__call__` says here is done where there are arguments by name.
    __slots__ = ("__dict__", "__weakref__", "entry")

    def __init__(
        self,
        artifact: Artifact,
        entry: Callable[..., Any],
        execution_backend: str,
        key: str,
        origin: str,
        again: Callable[[Mapping[str, Any]], Kernel] | None = None,
    ) -> None:
        self._again = again
        self.artifact = artifact
        self.execution_backend = execution_backend
        self.key = key
        self.origin = origin
        self.signature = Signature(artifact.function)
        self.entry: Callable[..., Any] = entry
        self.latency: float | None = None
        self.config: Any = None
        self.ref_latency: float | None = None

    @outside_graphs
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Runs the kernel.

        Args:
            args: the inputs, in order.
            kwargs: inputs by name; ``skip_tensor_validation=True`` leaves out the checks of shapes, types, strides and
                devices, in a kernel compiled on first use: what does not fit reads and writes other memory.
                ``stream=`` is for execution backends that take it as an argument.

        Raises:
            ArgumentError: an argument does not fit; the error shows the parameter's line.
        """
        if not kwargs:
            return self.entry(*args)
        entry: Callable[..., Any] = self.entry
        if kwargs.pop("skip_tensor_validation", False):
            entry = self._unvalidated
        passed = (
            {"stream": kwargs.pop("stream")} if "stream" in kwargs and getattr(entry, "takes_stream", False) else {}
        )
        if kwargs:
            args = self._in_order(args, kwargs)
        return entry(*args, **passed)

    def __copy__(self) -> Kernel:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Kernel:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        """Another process compiles the same function for the same target, or finds it in the caches."""
        given = pickle.dumps(self.prim_func), self.target.kind, self.target.attrs, self.execution_backend
        return _compiled_again, given, {"latency": self.latency, "config": self.config, "ref_latency": self.ref_latency}

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

    @property
    def adapter(self) -> str:
        """Name of the execution backend."""
        return self.execution_backend

    @property
    def torch_function(self) -> Callable[..., Any]:
        """What a call goes to: inputs in order, outputs out."""
        return self.entry

    @cached_property
    def _unvalidated(self) -> Callable[..., Any]:
        """The entry without checks of tensors: a kernel of its own, compiled when first asked for."""
        return self.entry if self._again is None else self._again({"tl.disable_tensor_validation": True}).entry

    @cached_property
    def resource_usage(self) -> list[dict[str, Any]]:
        """For each device kernel what its compiler tells: name, threads, shared_bytes, registers, spill_bytes.

        Raises:
            OptionError: the target's toolchain tells nothing of the kind.
        """
        return self._toolchain("resources", "resource usage")(self.artifact)

    @property
    def n_regs(self) -> int | None:
        """Registers of a thread, the most that a device kernel of this one uses; None if not known."""
        return self._largest("registers")

    @property
    def n_spills(self) -> int | None:
        """Bytes that a thread moves to memory for want of registers (stores and loads); None if not known."""
        return self._largest("spill_bytes")

    @property
    def n_max_threads(self) -> int | None:
        """Threads of a block."""
        return self._largest("threads")

    def get_kernel_source(self, kernel_only: bool = True) -> str:
        """The generated device source, with `kernel_only=False` the host source after it. Where both share a file, that
        file."""
        return self._source("kernel") if kernel_only else "\n".join(map(self._source, self._kinds("both")))

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
                write_file(path, self._source(kind).encode())

    def export_library(self, path: str | Path) -> None:
        """Writes the compiled library to `path` and a C header beside it (``libgemm.so`` and ``gemm.h``).

        The library exports the entry by the tvm-ffi C ABI: for C++ through the header, for Python through
        ``tvm_ffi.load_module(path)``. Neither needs Tile.

        Raises:
            OptionError: the artifact has no library.
            CompileError: the kernel's name is not one of C.
        """
        name = next((name for name in self.artifact.binaries if name.endswith(".so")), None)
        if name is None:
            help = "compile it with execution_backend='tvm_ffi'" if self.execution_backend != "tvm_ffi" else None
            raise self._lacks("library", "binaries", self.artifact.binaries, help)
        text = header(self.artifact, self.signature)
        library = write_file(path, self._binary(name))
        write_file(library.with_name(f"{library.stem.removeprefix('lib')}.h"), text.encode())

    def get_ptx(self) -> str:
        """The PTX text.

        Raises:
            OptionError: the target has none.
        """
        name = next((name for name in self.artifact.binaries if name.endswith(".ptx")), None)
        if name is None:
            raise self._lacks("PTX", "binaries", self.artifact.binaries)
        return self._binary(name).decode().rstrip("\0")

    def show_ptx(self, file: TextIO | None = None) -> None:
        """Prints the PTX text to `file` (standard output)."""
        print(self.get_ptx(), file=file or sys.stdout)

    def export_ptx(self, path: str | Path) -> None:
        """Writes the PTX text to a file."""
        write_file(path, self.get_ptx().encode())

    def get_sass(self) -> str:
        """The machine code as text.

        Raises:
            OptionError: the target's toolchain cannot show it.
            ToolchainError: the disassembler is missing.
        """
        return self._toolchain("disassemble", "machine code as text")(self.artifact)

    def show_sass(self, file: TextIO | None = None) -> None:
        """Prints the machine code to `file` (standard output)."""
        print(self.get_sass(), file=file or sys.stdout)

    def export_sass(self, path: str | Path) -> None:
        """Writes the machine code as text to a file."""
        write_file(path, self.get_sass().encode())

    def update_tuner_result(self, latency: float, config: Any, ref_latency: float | None = None) -> Kernel:
        """Notes what a tuner measured (ms) and with which configuration; gives the kernel."""
        self.latency, self.config, self.ref_latency = latency, config, ref_latency
        return self

    def get_tuner_result(self) -> tuple[float | None, Any, float | None]:
        """(latency, config, ref_latency) as noted, or Nones."""
        return self.latency, self.config, self.ref_latency

    def run_once(self, func: Callable[..., Any] | None = None) -> Any:
        """Calls the kernel (or `func`) once with inputs made for it; gives what it returns."""
        return self.get_profiler().run_once(func)

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
        # an execution backend that runs another host function than the compiled one shows that
        own = getattr(self.entry, "host_source", None) if kind == "host" else None
        text = own or self.artifact.source(kind)
        if text is None:
            raise self._lacks(f"{kind} source", "sources", self.artifact.sources)
        return text

    def _binary(self, name: str) -> bytes:
        content: Any = self.artifact.binaries[name]
        return content if isinstance(content, bytes) else Path(content).read_bytes()

    def _lacks(self, what: str, kind: str, present: Mapping[str, Any], help: str | None = None) -> OptionError:
        return OptionError(
            "E-KERNEL-SOURCE",
            f"{self.name}: there is no {what} for {self.target}",
            facts=(f"{kind}: {', '.join(present) or 'none'}",),
            help=help,
        )

    def _toolchain(self, method: str, what: str) -> Callable[[Artifact], Any]:
        """A method that toolchains may have (`tile_core.plugin.Toolchain`)."""
        toolchain = registry.backend_for(self.target.kind).toolchain
        found = getattr(resolve(toolchain), method, None) if toolchain is not None else None
        if found is None:
            raise OptionError("E-KERNEL-SOURCE", f"{self.name}: there is no {what} for {self.target}")
        return found

    def _largest(self, what: str) -> int | None:
        return max((row[what] for row in self.resource_usage if what in row), default=None)

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


def _compiled_again(function: bytes, kind: str, attrs: Mapping[str, Any], execution_backend: str) -> Any:
    registry.backend_for(kind)  # declares its memory scopes, which the function names
    return compile(pickle.loads(function), target=Target(kind, attrs), execution_backend=execution_backend)


def choice_text(choice: Any) -> str:
    """What was chosen for one tile operation, where it stands, and why the others were not; kept on disk as this
    text."""
    if isinstance(choice, str):
        return choice
    place = f" at {choice.span!r}" if choice.span is not None else ""
    lines = [f"T.{choice.op.name}{place}: {choice.taken} (cost {choice.cost:g})"]
    lines += [f"    {name}: {reason}" for name, reason in choice.considered if name != choice.taken]
    return "\n".join(lines)
