"""Settings: every environment variable that Tile reads, in one typed table.

`settings.cache_dir` reads ``TILE_CACHE_DIR`` at that moment, so a changed environment shows at once. A value that
cannot be read is a `SettingError` that names the variable, what was found and what is allowed.
`settings.scope(disable_cache=True)` overrides for a `with` block, in the whole process: compile workers started
inside must see it too.

The table is made here and nowhere else; a backend's own switches are options of a compile, not settings.
"""

from __future__ import annotations

import difflib
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Generic, TypeVar, cast, overload

from .errors import SettingError, declare_codes

__all__ = ["Setting", "Settings", "settings", "settings_table"]

declare_codes({"E-SETTING": "an environment setting has a value that cannot be read"})

T = TypeVar("T")


class Setting(Generic[T]):
    """One variable: its name, how its text is read, its default and what it is for.

    Args:
        name: the environment variable.
        parse: text → value; raises ValueError for a text outside `allowed`.
        default: the value without the variable, or a function that finds it at reading time.
        allowed: what the text may be, for people.
        doc: one line.
        fallbacks: variables of other tools that count where this one is not set.
    """

    def __init__(
        self,
        name: str,
        parse: Callable[[str], T],
        default: T | Callable[[], T],
        allowed: str,
        doc: str,
        *,
        fallbacks: tuple[str, ...] = (),
    ) -> None:
        self.name = name
        self.parse = parse
        self.default = default
        self.allowed = allowed
        self.doc = doc
        self.fallbacks = fallbacks
        self.attribute = ""

    def __set_name__(self, owner: type, attribute: str) -> None:
        self.attribute = attribute

    @overload
    def __get__(self, instance: None, owner: type) -> Setting[T]: ...
    @overload
    def __get__(self, instance: Settings, owner: type) -> T: ...
    def __get__(self, instance: Settings | None, owner: type) -> Setting[T] | T:
        if instance is None:
            return self
        for override in reversed(instance._overrides):
            if self.attribute in override:
                return override[self.attribute]
        if self.attribute in instance._held:
            return instance._held[self.attribute]
        for name in (self.name, *self.fallbacks):
            text = os.environ.get(name, "").strip()
            if text:
                return self._read(name, text)
        return self.default_value()

    def __set__(self, instance: Settings, value: object) -> None:
        raise AttributeError(
            f"settings.{self.attribute} cannot be assigned: set {self.name} or use settings.scope({self.attribute}=…)"
        )

    def default_value(self) -> T:
        """The value that holds where the variable is not set."""
        return cast("T", self.default() if callable(self.default) else self.default)

    def _read(self, name: str, text: str) -> T:
        try:
            return self.parse(text)
        except ValueError:
            raise SettingError(
                "E-SETTING",
                f"{name} cannot be read",
                facts=(f"found:   {text!r}", f"allowed: {self.allowed}"),
                help=f"set {name} to an allowed value, or unset it (default: {_show(self.default_value())})",
            ) from None


def _flag(text: str) -> bool:
    word = text.lower()
    if word in ("1", "true", "yes", "on"):
        return True
    if word in ("0", "false", "no", "off"):
        return False
    raise ValueError(text)


def _positive_int(text: str) -> int | None:
    value = int(text)
    if value < 1:
        raise ValueError(text)
    return value


def _positive_seconds(text: str) -> float | None:
    value = float(text)
    if not 0 < value < float("inf"):
        raise ValueError(text)
    return value


def _target(text: str) -> Any:
    if not text.startswith("{"):
        return text
    import json

    found = json.loads(text)  # its error is a ValueError
    if not isinstance(found.get("kind"), str):
        raise ValueError(text)
    return found


def _diff(text: str) -> str | None:
    if text.lower() in ("0", "false", "no", "off"):
        return None
    if text not in ("terminal", "html", "both"):
        raise ValueError(text)
    return text


def _milliseconds(text: str) -> float:
    value = float(text)
    if not 0 <= value < float("inf"):
        raise ValueError(text)
    return value


def _share(text: str) -> float:
    value = float(text)
    if not 0 < value <= 1:
        raise ValueError(text)
    return value


def _path(text: str) -> Path:
    try:
        return Path(text).expanduser().absolute()
    except RuntimeError:  # a user without a home
        raise ValueError(f"{text!r} begins with a home that nobody knows") from None


def _optional_path(text: str) -> Path | None:
    return _path(text)


def _folders(text: str) -> tuple[Path, ...]:
    return tuple(_path(part) for part in text.split(os.pathsep) if part.strip())


def _word(text: str) -> str:
    return text


def _optional_word(text: str) -> str | None:
    return text


def _names(text: str) -> tuple[str, ...]:
    names = tuple(part.strip() for part in text.split(","))
    if not all(names):
        raise ValueError(text)
    return names


def _choices(text: str) -> dict[str, str]:
    chosen: dict[str, str] = {}
    for part in text.split(","):
        name, equals, distribution = (piece.strip() for piece in part.partition("="))
        if not (name and equals and distribution) or name in chosen:
            raise ValueError(text)
        chosen[name] = distribution
    return chosen


def _default_cache_dir() -> Path:
    try:
        home = Path("~").expanduser()
    except RuntimeError:
        import tempfile  # rarely needed, and slow to import

        # A user that the system does not know, as in a container. What lies there is loaded only if it is this user's.
        return Path(tempfile.gettempdir()) / f"tile-{os.getuid()}"
    if sys.platform == "darwin":
        return home / "Library" / "Caches" / "tile"
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or home / "AppData" / "Local") / "tile" / "cache"
    return Path(os.environ.get("XDG_CACHE_HOME") or home / ".cache") / "tile"


_FLAG = "1, true, yes, on or 0, false, no, off"


class Settings:
    """The table. An attribute is its variable's name in small letters, without ``TILE_``; `scope` overrides it."""

    cache_dir = Setting(
        "TILE_CACHE_DIR",
        _path,
        _default_cache_dir,
        "a folder (it is made when needed)",
        "where compiled kernels are kept",
    )
    disable_cache = Setting(
        "TILE_DISABLE_CACHE", _flag, False, _FLAG, "compile every kernel anew, on disk and in memory"
    )
    cache_shared_dir = Setting(
        "TILE_CACHE_SHARED_DIR",
        _folders,
        (),
        "folders, separated as in PATH",
        "caches that are only read, below the one that is written",
    )
    cache_remote = Setting(
        "TILE_CACHE_REMOTE",
        _optional_word,
        None,
        "an address that fsspec opens, such as s3://bucket/tile; with read: before it, it is only read",
        "a cache elsewhere, asked when none on disk has a kernel",
    )
    num_threads = Setting(
        "TILE_NUM_THREADS",
        _positive_int,
        None,
        "a whole number, 1 or more",
        "threads that CPU kernels use (default: torch's, else one per core)",
    )
    default_target = Setting(
        "TILE_DEFAULT_TARGET",
        _target,
        "auto",
        'a target, such as cpu or cuda -arch=sm_90a, or JSON such as {"kind": "cuda", "arch": "sm_90a"}',
        "the target where a compile names none",
    )
    execution_backend = Setting(
        "TILE_EXECUTION_BACKEND",
        _word,
        "auto",
        "auto or the name of an execution backend",
        "how kernels are called where a compile names none",
    )
    backends = Setting(
        "TILE_BACKENDS",
        _choices,
        dict,
        "pairs such as ascend=acme-tile-ascend, separated by commas",
        "which distribution provides a backend that several claim",
    )
    disable_plugins = Setting(
        "TILE_DISABLE_PLUGINS",
        _names,
        (),
        "names of distributions or entry points, separated by commas, or all",
        "plugins that are listed but never loaded",
    )
    debug_ir = Setting(
        "TILE_DEBUG_IR", _flag, False, _FLAG, "check the form of the IR after each pass; changing a node raises"
    )
    dump_ir_dir = Setting(
        "TILE_DUMP_IR_DIR", _optional_path, None, "a folder", "write the IR after each pass of every compile there"
    )
    pass_diff = Setting(
        "TILE_PASS_DIFF",
        _diff,
        None,
        "terminal, html or both; 0 for nothing",
        "show what each pass of every compile changes: on standard error, as a page in TILE_DUMP_IR_DIR (or here)",
    )
    pass_profile = Setting("TILE_PASS_PROFILE", _flag, False, _FLAG, "print how long each pass of every compile took")
    pass_profile_threshold_ms = Setting(
        "TILE_PASS_PROFILE_THRESHOLD_MS",
        _milliseconds,
        0.0,
        "a number of milliseconds, 0 or more",
        "leave passes that took less out of that table",
    )
    verbose = Setting("TILE_VERBOSE", _flag, False, _FLAG, "say what is compiled, with what, and what the cache did")
    jit_diagnostics = Setting(
        "TILE_JIT_DIAGNOSTICS", _flag, False, _FLAG, "print the start, end and time of each phase of a compile"
    )
    cc = Setting(
        "TILE_CC",
        _optional_word,
        None,
        "a C++ compiler, by name or path, with options if need be",
        "the host compiler (default: the first of c++, g++, clang++)",
        fallbacks=("CXX",),
    )
    compile_timeout_seconds = Setting(
        "TILE_COMPILE_TIMEOUT_SECONDS",
        _positive_seconds,
        None,
        "a number of seconds above 0",
        "give up on a compiler that runs longer",
    )
    autotune_disable_cache = Setting(
        "TILE_AUTOTUNE_DISABLE_CACHE", _flag, False, _FLAG, "measure every configuration anew and keep no result"
    )
    autotune_cpu_share = Setting(
        "TILE_AUTOTUNE_CPU_SHARE",
        _share,
        0.9,
        "a number above 0, at most 1",
        "share of the cores that compile while tuning",
    )
    autotune_cpu_count = Setting(
        "TILE_AUTOTUNE_CPU_COUNT",
        _positive_int,
        None,
        "a whole number, 1 or more",
        "cores that compile while tuning, instead of the share",
    )
    autotune_max_cpu_count = Setting(
        "TILE_AUTOTUNE_MAX_CPU_COUNT",
        _positive_int,
        None,
        "a whole number, 1 or more",
        "no more cores than this compile while tuning",
    )

    def __init__(self) -> None:
        self._overrides: list[dict[str, Any]] = []
        self._held: dict[str, Any] = {}

    @contextmanager
    def scope(self, **values: Any) -> Iterator[None]:
        """Holds the given attributes at the given values inside a `with` block, before environment and defaults."""
        self._require(values)
        self._overrides.append(values)
        try:
            yield
        finally:
            # by identity: another thread may have opened its scope meanwhile
            self._overrides[:] = [override for override in self._overrides if override is not values]

    def hold(self, **values: Any) -> None:
        """Holds the given attributes at the given values from now on, before environment and defaults; a `scope` comes
        first."""
        self._require(values)
        self._held.update(values)

    def held(self) -> dict[str, Any]:
        """What `hold` and the open scopes say, for a process that must see the same."""
        held = dict(self._held)
        for override in self._overrides:
            held.update(override)
        return held

    def _require(self, values: Iterable[str]) -> None:
        for attribute in values:
            if not isinstance(getattr(type(self), attribute, None), Setting):
                raise AttributeError(
                    f"there is no setting {attribute!r}{_close(attribute, [s.attribute for s in self.all()])}"
                )

    @property
    def watches_passes(self) -> bool:
        """Whether somebody wants to see the passes of a compile, so that they must run, in this process."""
        return self.dump_ir_dir is not None or self.pass_diff is not None or self.pass_profile

    @classmethod
    def all(cls) -> tuple[Setting[Any], ...]:
        """Every setting, in the order of the table."""
        return tuple(value for value in vars(cls).values() if isinstance(value, Setting))

    @classmethod
    def unknown_variables(cls) -> dict[str, str | None]:
        """``TILE_*`` variables that are set and mean nothing, each with the setting it resembles most."""
        known = [setting.name for setting in cls.all()]
        strays = sorted(name for name in os.environ if name.startswith("TILE_") and name not in known)
        return {name: next(iter(difflib.get_close_matches(name, known, n=1)), None) for name in strays}


settings = Settings()


def settings_table() -> str:
    """The table as Markdown, for the documentation: variable, allowed values, default, meaning."""
    rows = ["| variable | allowed | default | meaning |", "|---|---|---|---|"]
    for setting in Settings.all():
        name = " or ".join(f"`{name}`" for name in (setting.name, *setting.fallbacks))
        default = (
            "`~/.cache/tile` or the platform's own" if setting is Settings.cache_dir else _show(setting.default_value())
        )
        rows.append(f"| {name} | {setting.allowed} | {default} | {setting.doc} |")
    return "\n".join(rows) + "\n"


def _show(value: object) -> str:
    if value is None or value in ((), {}):
        return "none"
    if isinstance(value, bool):
        return "1" if value else "0"
    return str(value)


def _close(word: str, known: list[str]) -> str:
    match = difflib.get_close_matches(word, known, n=1)
    return f"; did you mean {match[0]!r}?" if match else ""
