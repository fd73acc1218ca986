"""What a backend, an execution backend, a runtime or a command declares.

Each is a frozen spec that validates itself, made in a module that imports no vendor library: compilers and drivers
stay dotted strings
(``"package.module:name"``) until they are used. `PLUGIN_API` is (major, minor): minor grows when something is added
with a default, major when
something that plugins must have changes.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

from ..ir import IRModule, MemoryScope
from ..target import Target

__all__ = [
    "PLUGIN_API",
    "Artifact",
    "Backend",
    "BinaryStore",
    "Command",
    "ExecutionBackend",
    "InstrumentSpec",
    "Ok",
    "PassExtension",
    "Reason",
    "Runtime",
    "Toolchain",
    "resolve",
]

PLUGIN_API = (1, 1)


@dataclass(frozen=True, slots=True)
class Ok:
    """Available; `detail` is what `tile info` shows."""

    detail: str = ""

    def __bool__(self) -> bool:
        return True


@dataclass(frozen=True, slots=True)
class Reason:
    """Not available, why, and how to get it."""

    text: str
    help: str = ""

    def __bool__(self) -> bool:
        return False


def resolve(reference: str | Callable[..., Any]) -> Any:
    """The object that ``"package.module:name"`` names; anything but a string is returned as it is."""
    if not isinstance(reference, str):
        return reference
    module, _, name = reference.partition(":")
    found: Any = importlib.import_module(module)
    for part in name.split("."):
        found = getattr(found, part)
    return found


@runtime_checkable
class BinaryStore(Protocol):
    """Where a toolchain looks for device binaries before it compiles any, and keeps those that it made.

    `family` separates backends; `parts` is everything that decides the binary: source, architecture, flags, exact
    version of the compiler. Neither method raises for a disk that fails.
    """

    def find(self, family: str, parts: Mapping[str, object]) -> dict[str, bytes] | None:
        """The files that were made from exactly these parts, or None."""
        ...

    def keep(self, family: str, parts: Mapping[str, object], files: Mapping[str, bytes]) -> None:
        """Keeps files for `find`."""
        ...


@runtime_checkable
class Toolchain(Protocol):
    """What `Backend.toolchain` names. It may have more, which is asked for where present:

    - ``runnable(target) → Ok | Reason``: whether this machine can execute code for the target;
    - ``resources(artifact) → list of dict``: for each kernel its ``name``, ``registers``, ``spill_bytes``,
      ``shared_bytes``, ``threads`` as far as they are known;
    - ``disassemble(artifact) → str``: the machine code as text; raises ToolchainError where the tool is missing.
    """

    def identity(self, target: Target) -> str:
        """What must change a cached kernel's key: compilers, versions, flags.

        Raises:
            ToolchainError: a compiler is missing.
        """
        ...

    def build(self, artifact: Artifact) -> dict[str, bytes]:
        """The binaries of an artifact, by file name."""
        ...


@dataclass(slots=True)
class Artifact:
    """What compiling one kernel yields.

    Args:
        target: resolved target.
        name: symbol of the entry function.
        function: the user's function in form TILE.
        module: the lowered functions, host and device; `function` alone where it came from a cache.
        sources: name → text, such as ``kernel.cpp``.
        binaries: name → bytes or path, filled by the toolchain.
        entry: symbol of the packed host function.
        choices: what `explain()` shows.
        notes: diagnostics, pass timings, accepted but inert options.
        store: where the toolchain may look for device binaries, or None.
    """

    target: Target
    name: str
    function: Any
    module: IRModule
    sources: dict[str, str]
    binaries: dict[str, bytes] = field(default_factory=dict)
    entry: str = ""
    choices: list[Any] = field(default_factory=list)
    notes: dict[str, Any] = field(default_factory=dict)
    store: BinaryStore | None = None

    @property
    def params(self) -> tuple[Any, ...]:
        """The parameters, tensors as `Buffer` and scalars as `Var`, in the order of the source."""
        return tuple(self.function.params)

    @property
    def host(self) -> IRModule:
        """The lowered functions that check arguments and launch."""
        return IRModule(tuple(f for f in self.module.functions if f.attr("calling_convention") == "packed"))

    @property
    def device(self) -> IRModule:
        """The lowered kernels."""
        return IRModule(tuple(f for f in self.module.functions if f.attr("calling_convention") == "device"))

    @property
    def kernel_source(self) -> str | None:
        """The device source; where host and device share a file, that file."""
        return self.source("kernel")

    @property
    def host_source(self) -> str | None:
        """The host source; where host and device share a file, that file."""
        return self.source("host")

    def source(self, kind: str) -> str | None:
        """The sources whose names start with `kind`, else the only one there is, else None."""
        named = [text for name, text in self.sources.items() if name.startswith(kind)]
        if named:
            return "\n".join(named)
        return next(iter(self.sources.values())) if len(self.sources) == 1 else None


@dataclass(frozen=True, slots=True)
class Backend:
    """A target backend: how kernels for some kinds of target are lowered and turned into source and binaries.

    Args:
        name: entry-point name.
        api: PLUGIN_API that it was built for.
        kinds: target kinds, such as ``("cuda",)``.
        resolve_target: ``"module:function"``, (Target) → Target with every attribute filled and checked; raises
            TargetError.
        detect: ``"module:function"``, () → Ok | Reason: is a device present.
        priority: ``"auto"`` takes the highest among those detected.
        pipeline: ``"module:function"``, (Target, Options) → Pipeline from TILE to PACKED.
        candidates: ``"module:function"``, () → sequence of Candidate for this backend, in order of preference.
        codegen: ``"module:function"``, (IRModule, Target) → dict name → source text.
        toolchain: ``"module:name"`` of an object with ``identity(target) → str`` and ``build(artifact) → dict[str,
            bytes]``, or None. An object that needs fewer compilers for some files may have ``for_files(files)``, which
            gives the same for an execution backend that loads these.
        execution_backends: names in order of preference.
        scopes: memory scopes to register.
        emulation: ``"module:function"``, () → the folder with the header that generated source includes when it is
            emulated, or None where it can't be.
    """

    name: str
    api: tuple[int, int]
    kinds: tuple[str, ...]
    resolve_target: str
    detect: str
    pipeline: str
    candidates: str
    codegen: str
    toolchain: str | None
    execution_backends: tuple[str, ...]
    priority: int = 0
    scopes: tuple[MemoryScope, ...] = ()
    replaces: tuple[str, ...] = ()
    emulation: str | None = None

    def __post_init__(self) -> None:
        if not self.name.isidentifier():
            raise ValueError(f"backend name {self.name!r} is not an identifier")
        if not self.kinds:
            raise ValueError(f"backend {self.name} declares no target kinds")
        if len(self.api) != 2:
            raise ValueError(f"backend {self.name}: api must be (major, minor)")
        for key in ("resolve_target", "detect", "pipeline", "candidates", "codegen", "toolchain", "emulation"):
            value = getattr(self, key)
            if value is not None and (not isinstance(value, str) or ":" not in value):
                raise ValueError(f"backend {self.name}: {key} must be 'module:name', found {value!r}")
        if not self.execution_backends:
            raise ValueError(f"backend {self.name} names no execution backend")


@dataclass(frozen=True, slots=True)
class ExecutionBackend:
    """How a compiled artifact becomes a callable.

    Args:
        name: entry-point name, what `execution_backend=` takes.
        targets: target kinds, or ``("*",)`` for any whose backend builds `files`.
        available: ``"module:function"``, () → Ok | Reason.
        build: ``"module:function"``, (Artifact) → callable(*args).
        files: names of the toolchain's files that a cached artifact must hold; () when it needs no toolchain.
        callee_allocates: whether outputs are allocated by the callee.
        stream: ``ask`` (asks the framework at call time) or ``pass`` (takes it as an argument).
    """

    name: str
    api: tuple[int, int]
    targets: tuple[str, ...]
    available: str
    build: str
    files: tuple[str, ...]
    callee_allocates: bool = False
    stream: str = "ask"
    replaces: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.stream not in ("ask", "pass"):
            raise ValueError(f"execution backend {self.name}: stream {self.stream!r} is not 'ask' or 'pass'")
        for key in ("available", "build"):
            if ":" not in getattr(self, key):
                raise ValueError(f"execution backend {self.name}: {key} must be 'module:name'")


@dataclass(frozen=True, slots=True)
class Command:
    """A subcommand of the ``tile`` program: `run` is ``"module:function"``, (list of words) → exit code."""

    name: str
    api: tuple[int, int]
    summary: str
    run: str
    replaces: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if ":" not in self.run:
            raise ValueError(f"command {self.name}: run must be 'module:function', found {self.run!r}")


@dataclass(frozen=True, slots=True)
class PassExtension:
    """A third party's pass and its place in backends' pipelines.

    Args:
        name: entry-point name.
        api: PLUGIN_API that it was built for.
        after: name of the pass that it follows; a pipeline without that pass is left alone.
        make: ``"module:Class"`` of the pass.
        kinds: target kinds it is for; () for all.
    """

    name: str
    api: tuple[int, int]
    after: str
    make: str
    kinds: tuple[str, ...] = ()
    replaces: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if ":" not in self.make:
            raise ValueError(f"pass {self.name}: make must be 'module:Class', found {self.make!r}")


@dataclass(frozen=True, slots=True)
class InstrumentSpec:
    """A tool that watches passes: `make` is ``"module:function"``, () → an instrument, or None when it is not wanted.

    An instrument may define ``before_pass(pass_, module)`` and ``after_pass(pass_, module, seconds)``.
    """

    name: str
    api: tuple[int, int]
    make: str
    replaces: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if ":" not in self.make:
            raise ValueError(f"instrument {self.name}: make must be 'module:function', found {self.make!r}")


@runtime_checkable
class Runtime(Protocol):
    """What `tile_core.api` delegates to. It may have more, which is asked for where present:

    - ``par_compile(functions, options, num_workers, ignore_error) → list``: a kernel for each function, several at
      once; with `ignore_error`, None for one that fails;
    - ``clear_cache()``: forgets what this process compiled, and removes it from the disk.
    """

    name: str
    api: tuple[int, int]

    def jit(self, function: Any, options: Mapping[str, Any]) -> Any:
        """A callable that compiles on call."""
        ...

    def compile(self, function: Any, options: Mapping[str, Any]) -> Any:
        """A compiled kernel."""
        ...
