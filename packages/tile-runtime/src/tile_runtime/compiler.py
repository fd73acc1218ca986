"""`compile_kernel`: one traced function → one callable kernel, through the memory and disk caches.

    options ─▶ target, backend, execution backend ─▶ key ─▶ memory? ─▶ disk? ─▶ lower, build, publish ─▶ load

A hit on disk lowers nothing and needs no compiler: where the machine has none, an entry that any compiler built for
the same input
is taken.
"""

from __future__ import annotations

import platform
import sys
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tile_core.api import lower_for
from tile_core.codegen import postproc_key
from tile_core.codegen.includes import include_digests
from tile_core.errors import (
    CacheWarning,
    OptionError,
    PluginError,
    TargetError,
    TileError,
    TileWarning,
    ToolchainError,
    declare_codes,
)
from tile_core.ffi import headers_digest
from tile_core.ir import PrimFunc, TileOpStmt, walk
from tile_core.plugin import registry
from tile_core.plugin.api import Artifact, Backend, ExecutionBackend, resolve
from tile_core.settings import settings
from tile_core.target import Target
from tile_core.transform.options import Options

from .__about__ import __version__
from .cache import BinaryStore, DiskCache, Layers, MemoryCache, cache_key, code_digest
from .cache.artifact import artifact_files, artifact_from_entry
from .cache.remote import remote_layer
from .diagnostics import phase, say
from .kernel import Kernel
from .options import CompileOptions
from .signature import normalize_out_idx

__all__ = ["Request", "binary_store", "clear_memory", "compile_kernel", "disk_cache"]

declare_codes({"E-TARGET-MACHINE": "a kernel was called on a machine that cannot execute its code"})

_kernels: MemoryCache[Kernel] = MemoryCache()
_disks: MemoryCache[Layers] = MemoryCache()
_stores: MemoryCache[BinaryStore] = MemoryCache()
Build = Callable[["Request"], Artifact]
_said: set[tuple[str, str]] = set()  # (execution backend, which one took its place)


def compile_kernel(function: PrimFunc, options: CompileOptions, build: Build | None = None) -> Kernel:
    """The kernel for `function`; made at most once a key in this process.

    Args:
        function: traced.
        options: see `CompileOptions`.
        build: lowers and compiles in place of this thread, such as in another process.

    Raises:
        UserError: what is wrong with the function, the options, the target or the machine.
    """
    return Request(function, options, build).kernel()


def disk_cache() -> Layers:
    """The disk cache at ``TILE_CACHE_DIR`` with the layers below it, as they are set now."""
    roots, remote = (settings.cache_dir, *settings.cache_shared_dir), settings.cache_remote

    def make() -> Layers:
        first, *below = roots
        shared = [DiskCache(root, __version__, read_only=True) for root in below]
        return Layers(DiskCache(first, __version__), shared, remote_layer(remote, __version__))

    return _disks.get_or_make((roots, remote), make)


def binary_store() -> BinaryStore | None:
    """The store of device binaries in the same folders; None where caches are disabled."""
    if settings.disable_cache:
        return None
    roots = (settings.cache_dir, *settings.cache_shared_dir)
    return _stores.get_or_make(roots, lambda: BinaryStore(roots, __version__))


def clear_memory() -> None:
    """Forgets the kernels of this process; the next compile looks on disk."""
    _kernels.clear()


class Request:
    """One compile with everything resolved."""

    def __init__(self, function: PrimFunc, options: CompileOptions, build: Build | None = None) -> None:
        self.build = build
        self.verbose = settings.verbose if options.verbose is None else options.verbose
        self.debug_root_path = options.debug_root_path
        self.function = _with_attributes(function, options)
        self.flags = tuple(self.function.attr("compile_flags", ()))
        self.options = Options(dict(self.function.attr("pass_configs", ())))
        self.backend, self.target = _resolved_target(self.function, options)
        wanted = options.execution_backend or settings.execution_backend
        self.execution = registry.resolve_execution_backend(wanted, self.backend, self.target)
        self.automatic = wanted == "auto"

    def kernel(self) -> Kernel:
        kernel = self._kernel()
        if self.debug_root_path is not None:
            _write_sources(kernel.artifact, self.debug_root_path)
        return kernel

    def _kernel(self) -> Kernel:
        if settings.disable_cache:
            return self._uncached()
        base = self._base_parts()
        nameless = [module for module, digest in base["code"].items() if digest is None]
        if base["postprocessing"] is None:
            nameless.append("a postprocessing function")
        if nameless:
            _warn_nameless(self.function.name, nameless)
            return self._uncached()
        identity = self._toolchain_identity()
        if identity is None:
            return self._without_toolchain(base)
        key = cache_key({**base, "toolchain": identity})
        return _kernels.get_or_make(key, lambda: self._from_disk_or_compiled(key, cache_key(base)))

    def _uncached(self) -> Kernel:
        if self._toolchain_identity() is None:
            self._turn()
        return self._load(self.artifact(), "", "compiled")

    def artifact(self) -> Artifact:
        """Lowered and compiled, here or where `build` does it."""
        return self.compiled() if self.build is None else self.build(self)

    def compiled(self) -> Artifact:
        """Lowered and compiled in this thread."""
        name, times = self.function.name, {}
        with phase(name, "lowering", times, self.verbose):
            artifact = lower_for(self.function, self.backend, self.target, self.options)
        artifact.notes["seconds"] = times
        artifact.notes["compile_flags"] = self.flags
        artifact.store = binary_store()
        # An execution backend that loads no file of the toolchain's, such as the emulator, does without it.
        if self.backend.toolchain is not None and self.execution.files:
            with phase(name, "compiling", times, self.verbose):
                artifact.binaries.update(_toolchain(self.backend, self.execution).build(artifact))
        return artifact

    def _from_disk_or_compiled(self, key: str, base: str) -> Kernel:
        disk = disk_cache()
        # who wants to see the passes wants them to run
        kernel = self._from_disk(disk, key) if not settings.watches_passes else None
        if kernel is not None:
            return kernel
        artifact = self.artifact()
        entry = disk.publish(key, artifact_files(artifact))
        if entry is not None:
            disk.remember(base, key)
            # from its place in the cache, so that a debugger finds the file that runs
            for name in artifact.binaries:
                artifact.binaries[name] = entry.files.get(name, artifact.binaries[name])  # type: ignore[assignment]
        if self.verbose:
            say(f"{self.function.name}: compiled for {self.target} as {key[:16]}…")
        return self._load(artifact, key, "compiled")

    def _from_disk(self, disk: Layers, key: str) -> Kernel | None:
        entry = disk.load(key)
        if entry is None or not set(self.execution.files) <= set(entry.files):
            return None
        try:
            artifact = artifact_from_entry(entry, self.function, self.target)
            kernel = self._load(artifact, key, "disk")
        except (ValueError, KeyError, OSError, TileError):
            # whole, and yet of no use on this machine: compile anew and say nothing, the outcome is right
            disk.discard(key)
            return None
        if self.verbose:
            say(f"{self.function.name}: found on disk as {key[:16]}…")
        return kernel

    def _without_toolchain(self, base: dict[str, Any]) -> Kernel:
        """Where a compiler is missing: what another one built from the same input; else the next execution backend
        that does without it, if the choice is ours; else the compiler's absence is the error."""
        disk = disk_cache()
        key = disk.recall(cache_key(base))
        if key is not None:
            kernel = _kernels.get(key) or self._from_disk(disk, key)
            if kernel is not None:
                return _kernels.get_or_make(key, lambda: kernel)
        if self._turn():
            return self._kernel()
        return self._load(self.artifact(), "", "compiled")

    def _turn(self) -> bool:
        """Takes the next execution backend that works with the compilers that there are, where the choice is ours."""
        names = self.backend.execution_backends
        for name in names[names.index(self.execution.name) + 1 :] if self.automatic else ():
            try:
                other = registry.resolve_execution_backend(name, self.backend, self.target)
                _toolchain(self.backend, other).identity(self.target)
            except (PluginError, OptionError, ToolchainError):
                continue
            self._say_why(other)
            self.execution = other
            return True
        return False

    def _say_why(self, other: ExecutionBackend) -> None:
        """Once a process: what is missing, and what it costs."""
        if (self.execution.name, other.name) in _said:
            return
        _said.add((self.execution.name, other.name))
        try:
            _toolchain(self.backend, self.execution).identity(self.target)
        except ToolchainError as missing:
            warnings.warn(
                f"{missing.summary}; kernels are called by {other.name} instead of {self.execution.name}, "
                f"which takes longer a call. For {self.execution.name}: {missing.help}",
                TileWarning,
                stacklevel=_level_of_caller(),
            )

    def _load(self, artifact: Artifact, key: str, origin: str) -> Kernel:
        times = artifact.notes.setdefault("seconds", {})
        refusal = self._refusal()
        with phase(self.function.name, "loading", times, self.verbose):
            entry: Callable[..., Any] = refusal or resolve(self.execution.build)(artifact)
        return Kernel(artifact, entry, self.execution.name, key, origin, self._again)

    def _refusal(self) -> Callable[..., Any] | None:
        """What stands for the kernel where this machine cannot execute it: compiling needs no such machine, calling
        does."""
        if self.backend.toolchain is None or not self.execution.files:
            return None
        ask = getattr(resolve(self.backend.toolchain), "runnable", None)
        outcome = ask(self.target) if ask is not None else True
        if outcome:
            return None

        def refuse(*args: Any) -> Any:
            raise TargetError(
                "E-TARGET-MACHINE",
                f"{self.function.name} cannot run on this machine: {outcome.text}",
                facts=(f"it is compiled for {self.target}",),
                help=outcome.help or None,
            )

        return refuse

    def _again(self, options: Mapping[str, Any]) -> Kernel:
        """The same kernel with other pass options."""
        wishes = CompileOptions(
            target=self.target, execution_backend=self.execution.name, pass_configs=options, verbose=self.verbose
        )
        return Request(self.function, wishes, self.build).kernel()

    def base_key(self) -> str:
        """The cache key without the compilers: the same in every process that sees the same code."""
        return cache_key(self._base_parts())

    def _toolchain_identity(self) -> str | None:
        if self.backend.toolchain is None or not self.execution.files:
            return "none"
        try:
            return _toolchain(self.backend, self.execution).identity(self.target)
        except ToolchainError:
            return None

    def _base_parts(self) -> dict[str, Any]:
        text = self.function.script()
        return {
            "format": 1,
            "ir": text,
            "includes": include_digests(text, self.flags),
            "target": str(self.target),
            "execution_backend": self.execution.name,
            "options": {key: _plain(value) for key, value in self.options.given.items()},
            "compile_flags": list(self.flags),
            "machine": f"{sys.platform}-{platform.machine().lower()}",
            "headers": headers_digest(),
            "postprocessing": postproc_key(self.target.kind),
            "code": {module: code_digest(module) for module in self._contributors()},
        }

    def _contributors(self) -> list[str]:
        """Top-level modules whose code takes part: core, backend, execution backend, and whoever brings a pass or an
        op."""
        modules = {"tile_core", "tile_runtime", _top(self.backend.pipeline), _top(self.execution.build)}
        modules |= {_top(r.value) for r in registry.records("tile.passes") if r.state in ("listed", "ready")}
        modules |= {_top(type(node.op).__module__) for node in walk(self.function.body) if isinstance(node, TileOpStmt)}
        return sorted(modules)


def _with_attributes(function: PrimFunc, options: CompileOptions) -> PrimFunc:
    """`function` with the options that are part of it as attributes; what the caller says wins over what the source
    says."""
    out_idx = function.attr("out_idx", ()) if options.out_idx is None else options.out_idx
    configs = options.configs(dict(function.attr("pass_configs", ())))
    flags = (*function.attr("compile_flags", ()), *options.compile_flags)
    for name, value in (
        ("out_idx", normalize_out_idx(out_idx, function)),
        ("pass_configs", tuple(sorted(configs.items()))),
        ("compile_flags", flags),
    ):
        if value != function.attr(name, ()):
            function = function.with_attr(name, value or None)
    return function


def _resolved_target(function: PrimFunc, options: CompileOptions) -> tuple[Backend, Target]:
    wanted = options.target
    if wanted is None:
        wanted = function.attr("target") or settings.default_target
    return registry.resolve_target(wanted)


def _toolchain(backend: Backend, execution: ExecutionBackend) -> Any:
    """The backend's toolchain, for the files that an execution backend loads if it makes such a difference."""
    toolchain = resolve(backend.toolchain or "")
    restrict = getattr(toolchain, "for_files", None)
    return toolchain if restrict is None else restrict(execution.files)


def _warn_nameless(name: str, modules: list[str]) -> None:
    warnings.warn(
        f"{name} is not cached: code of {', '.join(modules)} takes part in it and has no file, so that a change of it "
        "could not be seen; put it into a module",
        CacheWarning,
        stacklevel=6,
    )


def _level_of_caller() -> int:
    """`stacklevel` of the nearest frame outside Tile, for a warning raised by the function that asks."""
    frame, level = sys._getframe(1), 1
    while frame.f_back is not None and _top(frame.f_globals.get("__name__", "")) in ("tile_core", "tile_runtime"):
        frame, level = frame.f_back, level + 1
    return level


def _write_sources(artifact: Artifact, root: Path) -> None:
    """Writes each generated source to ``<root>/<kernel>/``."""
    folder = root / artifact.name
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in artifact.sources.items():
        (folder / name).write_text(text, encoding="utf-8")


def _plain(value: Any) -> Any:
    return value if isinstance(value, (str, int, float, bool, type(None), list, tuple, dict)) else repr(value)


def _top(reference: str) -> str:
    return reference.partition(":")[0].partition(".")[0]
