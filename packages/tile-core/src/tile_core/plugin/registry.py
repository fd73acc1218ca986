"""The registry of plugins: one record for each entry point, imported on first use, each failure kept to itself.

This is the only module that reads entry points and versions of distributions. The module's functions ask the registry
of this process; a test makes a `Registry` of its own and puts it in place with `use`.
"""

from __future__ import annotations

import contextlib
import difflib
import sys
from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import contextmanager
from types import ModuleType
from typing import Any, NoReturn

from ..errors import OptionError, PluginError, TargetError, TileError, declare_codes
from ..ir import register_scope
from ..settings import settings
from ..target import Target, parse_target
from .api import Backend, Command, ExecutionBackend, Ok, Reason, Runtime, resolve
from .records import GROUPS, STATES, Record, load, normal_name, scan

__all__ = [
    "GROUPS",
    "STATES",
    "Record",
    "Registry",
    "backend_for",
    "backends",
    "commands",
    "dialect",
    "dialects",
    "distribution_version",
    "entry_points_under",
    "execution_backend",
    "instruments",
    "pipeline",
    "records",
    "resolve_execution_backend",
    "resolve_target",
    "runtime",
    "use",
]

declare_codes(
    {
        "E-PLUGIN-BROKEN": "a plugin that cannot be imported or names the wrong thing",
        "E-PLUGIN-CONFLICT": "a name that two distributions claim",
        "E-PLUGIN-DISABLED": "a plugin that TILE_DISABLE_PLUGINS turns off",
        "E-PLUGIN-INCOMPATIBLE": "a plugin built for another version of the plugin API",
        "E-PLUGIN-MISSING": "a backend, runtime or other plugin that is not installed",
        "E-PLUGIN-UNAVAILABLE": "an execution backend that cannot work on this machine",
        "E-EXECUTION-BACKEND": "an execution backend that does not exist or does not serve the target",
    }
)

# Which of our own distributions brings what, for the advice when it is missing.
_OFFICIAL: dict[str, dict[str, str]] = {
    "tile.backends": {"cpu": "tile-cpu", "cuda": "tile-cuda", "ascend": "tile-ascend"},
    "tile.execution_backends": {"tvm_ffi": "tile-runtime"},
    "tile.runtime": {"default": "tile-runtime"},
    "tile.dialects": {"cuda": "tile-cuda", "ascend": "tile-ascend"},
}


class Registry:
    """Plugins of one set of entry points.

    Args:
        entry_points: () → entry points with group, name, value, dist and load(); those of the installed
            distributions if not given.
        choices: name → distribution, where several claim a name; ``TILE_BACKENDS`` if not given.
        disabled: distributions or names never to load; ``TILE_DISABLE_PLUGINS`` if not given.
    """

    def __init__(
        self,
        entry_points: Callable[[], Iterable[Any]] | None = None,
        choices: Mapping[str, str] | None = None,
        disabled: Iterable[str] | None = None,
    ) -> None:
        self._entry_points = entry_points or _installed
        self.installed = entry_points is None  # so that another process finds the same
        self._choices = choices
        self._disabled = None if disabled is None else tuple(disabled)
        self._records: list[Record] | None = None
        self._settled: dict[tuple[str, str], Record | None] = {}

    # -- records -----------------------------------------------------------------------------------------------------

    def records(self, group: str | None = None, *, loaded: bool = False) -> tuple[Record, ...]:
        """The records, of one group or all; with `loaded`, each one imported (failures become states)."""
        if self._records is None:
            disabled = settings.disable_plugins if self._disabled is None else self._disabled
            self._records = scan(self._entry_points(), disabled)
        found = tuple(r for r in self._records if group in (None, r.group))
        if loaded:
            for record in found:
                self._settle(record.group, record.name)
        return found

    def names(self, group: str) -> list[str]:
        """Names of a group's entry points, without those that are disabled; nothing is imported."""
        return sorted({r.name for r in self.records(group) if r.state != "disabled"})

    def get(self, group: str, name: str) -> Any:
        """The spec called `name`.

        Raises:
            PluginError: it is missing, broken, incompatible, disabled or claimed twice; chained to the cause.
        """
        record = self._settle(group, name)
        if record is not None:
            return record.spec
        self._refuse(group, name)

    def ready(self, group: str) -> list[Any]:
        """All specs of a group that can be used, by name."""
        settled = [self._settle(group, name) for name in self.names(group)]
        return [record.spec for record in settled if record is not None]

    def _named(self, group: str, name: str) -> list[Record]:
        return [r for r in self.records(group) if r.name == name]

    def _settle(self, group: str, name: str) -> Record | None:
        """The record that a name stands for, or None where there is none that can be used."""
        key = (group, name)
        if key in self._settled:
            return self._settled[key]
        rivals = [r for r in self._named(group, name) if r.state != "disabled"]
        wanted = self._choice(name)
        chosen = [r for r in rivals if wanted is not None and normal_name(r.distribution) == wanted]
        if chosen:
            for record in rivals:
                if record is not chosen[0]:
                    record.state = "disabled"
                    record.reason = f"TILE_BACKENDS chooses {chosen[0].distribution} for {name}"
            rivals = chosen
        for record in rivals:
            load(record)
        winner = self._winner([r for r in rivals if r.state == "ready"])
        if winner is not None and group == "tile.backends":
            self._declare_scopes(winner)
        usable = winner if winner is not None and winner.state == "ready" else None
        self._settled[key] = usable
        return usable

    def _choice(self, name: str) -> str | None:
        choices = settings.backends if self._choices is None else self._choices
        return normal_name(choices[name]) if name in choices else None

    def _winner(self, rivals: list[Record]) -> Record | None:
        if len(rivals) < 2:
            return rivals[0] if rivals else None
        for record in rivals:
            others = [r for r in rivals if r is not record]
            replaced = {normal_name(name) for name in getattr(record.spec, "replaces", ())}
            if all(normal_name(r.distribution) in replaced for r in others):
                for other in others:
                    other.state = "disabled"
                    other.reason = f"{record.distribution} {record.version} replaces it"
                return record
        owners = " and ".join(r.place for r in rivals)
        for record in rivals:
            record.state = "conflict"
            record.reason = f"{owners} both bring {record.kind} {record.name!r}"
        return None

    @staticmethod
    def _declare_scopes(record: Record) -> None:
        try:
            for scope in record.spec.scopes:
                register_scope(scope)
        except ValueError as error:
            record.state, record.cause, record.reason = "broken", error, f"its scopes do not fit: {error}"

    def _refuse(self, group: str, name: str) -> NoReturn:
        rivals = self._named(group, name)
        kind = Record(group, name, "", "", "", load=_installed).kind
        if not rivals:
            self._missing(group, name, kind)
        # What is broken says more than what was turned off beside it.
        record = min(rivals, key=lambda r: ("conflict", "broken", "incompatible", "disabled").index(r.state))
        code, advice = _ADVICE[record.state]
        if record.state == "conflict":
            summary = f"{kind} {name!r} is claimed by {len(rivals)} distributions"
            facts = [r.place for r in rivals if r.state == "conflict"]
        else:
            summary = f"{kind} {name!r} of {record.place} cannot be used: {record.reason}"
            facts = [f"{r.state}: {r.place} – {r.reason}" for r in rivals if r is not record]
        help = advice.format(name=name, distribution=record.distribution) if advice else None
        raise PluginError(code, summary, facts=facts, help=help) from record.cause

    def _missing(self, group: str, name: str, kind: str) -> NoReturn:
        distribution = _OFFICIAL.get(group, {}).get(name)
        known = self.names(group)
        near = difflib.get_close_matches(name, known, n=1)
        advice = f"install {distribution}" if distribution else f"did you mean {near[0]!r}?" if near else None
        raise PluginError(
            "E-PLUGIN-MISSING",
            f"no installed distribution brings {kind} {name!r}",
            facts=[f"installed: {', '.join(known) or 'none'}"],
            help=advice or "`tile info` lists what is installed",
        )

    # -- backends and targets ----------------------------------------------------------------------------------------

    def backends(self) -> list[Backend]:
        """Backends that can be used, highest priority first."""
        return sorted(self.ready("tile.backends"), key=lambda b: (-b.priority, b.name))

    def backend_for(self, kind: str) -> Backend:
        """The backend for a kind of target.

        Raises:
            TargetError: nobody knows the kind.
            PluginError: the backend is missing, broken, incompatible or in conflict.
        """
        found = [b for b in self.backends() if kind in b.kinds]
        if len(found) > 1:
            records = [self._settled[("tile.backends", b.name)] for b in found]
            wanted = self._choice(kind)
            chosen = [r for r in records if r is not None and normal_name(r.distribution) == wanted]
            if not chosen:
                raise PluginError(
                    "E-PLUGIN-CONFLICT",
                    f"target kind {kind!r} is claimed by backends {' and '.join(b.name for b in found)}",
                    facts=[r.place for r in records if r is not None],
                    help=f"uninstall one, or choose with TILE_BACKENDS={kind}=<distribution>",
                )
            found = [chosen[0].spec]
        if found:
            return found[0]
        known_name = self._named("tile.backends", kind) or kind in _OFFICIAL["tile.backends"]
        if known_name and self._settle("tile.backends", kind) is None:
            self._refuse("tile.backends", kind)
        known = sorted({k for b in self.backends() for k in b.kinds} | {"auto"})
        near = difflib.get_close_matches(kind, known, n=1)
        unusable = [f"{r.name}: {r.state}, {r.reason}" for r in self.records("tile.backends") if r.state != "ready"]
        raise TargetError(
            "E-TARGET-UNKNOWN",
            f"no backend knows target kind {kind!r}",
            facts=[f"known kinds: {', '.join(known)}", *unusable],
            help=f"did you mean {near[0]!r}?"
            if near
            else "install the backend for it; `tile info` lists what is there",
        )

    def resolve_target(self, wanted: Any) -> tuple[Backend, Target]:
        """The backend and the target with all attributes filled in; ``"auto"`` takes the highest-priority backend with
        a device present (and says so under ``TILE_VERBOSE``).

        Raises:
            TargetError: the target cannot be read, or its options are wrong.
            PluginError: the backend for it is missing or cannot be used.
        """
        target = parse_target(wanted)
        if target.kind != "auto":
            backend = self.backend_for(target.kind)
            return backend, resolve(backend.resolve_target)(target)
        if target.attrs:
            raise TargetError(
                "E-TARGET-OPTION", f'target "auto" takes no options, found {target}', help="name the kind of target"
            )
        seen: list[str] = []
        for backend in self.backends():
            outcome = self.detect(backend)
            if isinstance(outcome, Reason):
                seen.append(f"{backend.name}: {outcome.text}")
                continue
            chosen = resolve(backend.resolve_target)(Target(backend.kinds[0]))
            if settings.verbose:
                print(f"tile: target auto is {chosen}{_because(seen)}", file=sys.stderr)
            return backend, chosen
        self._no_device(seen)

    def _no_device(self, seen: list[str]) -> NoReturn:
        unusable = [r for r in self.records("tile.backends") if r.state != "ready"]
        raise TargetError(
            "E-TARGET-UNKNOWN",
            'target "auto" found no device',
            facts=[*seen, *(f"{r.name}: {r.state}, {r.reason}" for r in unusable)] or ["no backend is installed"],
            help="install tile-cpu, which runs everywhere, or name a target to compile without a device",
        )

    @staticmethod
    def detect(backend: Backend) -> Ok | Reason:
        """Whether a device of the backend is present; a backend that fails to say is one without a device."""
        try:
            return resolve(backend.detect)()
        except Exception as error:
            return Reason(f"asking for a device raised {type(error).__name__}: {error}")

    # -- the other groups --------------------------------------------------------------------------------------------

    def execution_backend(self, name: str) -> ExecutionBackend:
        """The execution backend called `name`; raises PluginError."""
        return self.get("tile.execution_backends", name)

    def resolve_execution_backend(self, name: str, backend: Backend, target: Target) -> ExecutionBackend:
        """The execution backend for a compile: by name, or the first of the backend's that works here for ``"auto"``.

        Raises:
            OptionError: it does not serve the target.
            PluginError: it is missing, or cannot work on this machine.
        """
        if name != "auto":
            return self._named_execution(name, backend, target)
        declined: list[str] = []
        cause: BaseException | None = None
        for candidate in backend.execution_backends:
            try:
                return self._named_execution(candidate, backend, target)
            except (PluginError, OptionError) as error:
                declined.append(f"{candidate}: {error.summary}" + (f" ({error.help})" if error.help else ""))
                cause = cause or error
        if len(declined) == 1 and cause is not None:
            raise cause
        raise PluginError(
            "E-PLUGIN-UNAVAILABLE",
            f"no execution backend for target {target.kind} works here",
            facts=declined,
            help=cause.help if isinstance(cause, TileError) else None,
        ) from cause

    def _serving(self, backend: Backend, kind: str) -> str:
        """What `execution_backend=` can take for a target, as a fact: the backend's own, then what serves any."""
        found = list(backend.execution_backends)
        for name in self.names("tile.execution_backends"):
            if name not in found:
                with contextlib.suppress(PluginError):
                    if {"*", kind} & set(self.execution_backend(name).targets):
                        found.append(name)
        return f"for {kind}: {', '.join(found)}"

    def _named_execution(self, name: str, backend: Backend, target: Target) -> ExecutionBackend:
        known = self.names("tile.execution_backends")
        if name not in known and name not in backend.execution_backends and not self._named_anywhere(name):
            raise OptionError(
                "E-EXECUTION-BACKEND",
                f"there is no execution backend {name!r}",
                facts=[
                    f"installed: {', '.join(known) or 'none'}",
                    self._serving(backend, target.kind),
                ],
                help='use "auto", or one of these',
            )
        spec = self.execution_backend(name)
        # A backend that lists it makes what it loads: a new kind of target needs no change in the execution backend.
        if name not in backend.execution_backends and not {"*", target.kind} & set(spec.targets):
            raise OptionError(
                "E-EXECUTION-BACKEND",
                f"execution backend {name!r} does not serve target {target.kind}",
                facts=[
                    f"it serves: {', '.join(spec.targets)}",
                    self._serving(backend, target.kind),
                ],
                help='use "auto", or one of these',
            )
        available = resolve(spec.available)()
        if not available:
            raise PluginError(
                "E-PLUGIN-UNAVAILABLE",
                f"execution backend {name!r} cannot work here: {available.text}",
                help=available.help or None,
            )
        return spec

    def _named_anywhere(self, name: str) -> bool:
        return bool(self._named("tile.execution_backends", name)) or name in _OFFICIAL["tile.execution_backends"]

    def runtime(self) -> Runtime:
        """The runtime that compiles and calls kernels; raises PluginError with the advice to install one."""
        return self.get("tile.runtime", "default")

    def commands(self) -> dict[str, Command]:
        """Subcommands of the ``tile`` program that can be used, by name."""
        return {c.name: c for c in self.ready("tile.commands")}

    def dialects(self) -> list[str]:
        """Names of the dialects that are installed; nothing is imported."""
        return self.names("tile.dialects")

    def dialect(self, name: str) -> ModuleType:
        """The module of a dialect's names; raises PluginError."""
        return self.get("tile.dialects", name)

    def instruments(self) -> tuple[Any, ...]:
        """New instruments from all plugins that want to watch now."""
        made = [resolve(spec.make)() for spec in self.ready("tile.instruments")]
        return tuple(instrument for instrument in made if instrument is not None)

    def pipeline(self, backend: Backend, target: Target, options: Any) -> Any:
        """The backend's pipeline with third-party passes at their places, in the order of their names."""
        base = resolve(backend.pipeline)(target, options)
        extensions = [x for x in self.ready("tile.passes") if not x.kinds or target.kind in x.kinds]
        extensions = [x for x in extensions if any(p.name == x.after for p in base.passes)]
        if not extensions:
            return base
        passes: list[Any] = []
        for pass_ in base.passes:
            passes.append(pass_)
            passes += [resolve(x.make)() for x in extensions if x.after == pass_.name]
            extensions = [x for x in extensions if x.after != pass_.name]
        return type(base)(base.name, passes, base.start)


_ADVICE = {
    "broken": ("E-PLUGIN-BROKEN", "repair or uninstall {distribution}"),
    "incompatible": ("E-PLUGIN-INCOMPATIBLE", ""),  # the reason itself says who must move
    "conflict": ("E-PLUGIN-CONFLICT", "uninstall one of them, or choose with TILE_BACKENDS={name}=<distribution>"),
    "disabled": ("E-PLUGIN-DISABLED", "take it out of TILE_DISABLE_PLUGINS or TILE_BACKENDS"),
}


def _because(seen: list[str]) -> str:
    return f" ({'; '.join(seen)})" if seen else ""


def _installed() -> Iterable[Any]:
    import importlib_metadata  # noqa: TID251  (the one place)

    return importlib_metadata.entry_points()


def entry_points_under(*folders: str) -> list[Any]:
    """Entry points of the distributions in some folders only, for a `Registry` apart from what is installed."""
    import importlib_metadata  # noqa: TID251  (the one place)

    return [point for d in importlib_metadata.distributions(path=list(folders)) for point in d.entry_points]


def distribution_version(name: str) -> str | None:
    """The installed version of a distribution, or None."""
    import importlib_metadata  # noqa: TID251  (the one place)

    try:
        return importlib_metadata.version(name)
    except importlib_metadata.PackageNotFoundError:
        return None


_current = [Registry()]


@contextmanager
def use(registry: Registry) -> Generator[Registry, None, None]:
    """Puts a registry in place of this process's inside a `with` block."""
    _current.append(registry)
    try:
        yield registry
    finally:
        _current.remove(registry)


def current() -> Registry:
    """The registry that the module's functions ask."""
    return _current[-1]


def records(group: str | None = None, *, loaded: bool = False) -> tuple[Record, ...]:
    """See `Registry.records`."""
    return current().records(group, loaded=loaded)


def backends() -> list[Backend]:
    """See `Registry.backends`."""
    return current().backends()


def backend_for(kind: str) -> Backend:
    """See `Registry.backend_for`."""
    return current().backend_for(kind)


def resolve_target(wanted: Any) -> tuple[Backend, Target]:
    """See `Registry.resolve_target`."""
    return current().resolve_target(wanted)


def execution_backend(name: str) -> ExecutionBackend:
    """See `Registry.execution_backend`."""
    return current().execution_backend(name)


def resolve_execution_backend(name: str, backend: Backend, target: Target) -> ExecutionBackend:
    """See `Registry.resolve_execution_backend`."""
    return current().resolve_execution_backend(name, backend, target)


def runtime() -> Runtime:
    """See `Registry.runtime`."""
    return current().runtime()


def commands() -> dict[str, Command]:
    """See `Registry.commands`."""
    return current().commands()


def dialects() -> list[str]:
    """See `Registry.dialects`."""
    return current().dialects()


def dialect(name: str) -> ModuleType:
    """See `Registry.dialect`."""
    return current().dialect(name)


def instruments() -> tuple[Any, ...]:
    """See `Registry.instruments`."""
    return current().instruments()


def pipeline(backend: Backend, target: Target, options: Any) -> Any:
    """See `Registry.pipeline`."""
    return current().pipeline(backend, target, options)
