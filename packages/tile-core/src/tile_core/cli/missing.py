"""What is missing here, what that costs, and how to get it: the last table of ``tile info``."""

from __future__ import annotations

import importlib.util
from typing import Any

from ..errors import TileError
from ..plugin import Reason, registry, resolve
from ..target import Target

__all__ = ["missing_pieces"]

# module: (what it is called, what does not work without it, how to get it)
_MODULES = {
    "tile_runtime": (
        "tile-runtime",
        "no jit, no compile, no caches, no tuning: kernels are lowered and shown only",
        "",
    ),
    "tile_cpu": ("tile-cpu", "no target cpu", ""),
    "tile_cuda": ("tile-cuda", "no target cuda", ""),
    "tile_ascend": ("tile-ascend", "no target ascend", ""),
    "tile_emulator": ("tile-emulator", "no `tile check`, no execution backend emulate", ""),
    "torch": ("torch", "kernels cannot be called with tensors, timed or tuned", "pip install torch"),
    "tvm_ffi": ("apache-tvm-ffi", "compiled kernels cannot be loaded", "pip install apache-tvm-ffi"),
    "fsspec": ("fsspec", "no remote cache (TILE_CACHE_REMOTE)", "pip install 'tile-runtime[remote-cache]'"),
    "distributed": ("dask distributed", "no tuning over machines with a dask cluster", "pip install distributed"),
}


def missing_pieces() -> list[dict[str, str]]:
    """Rows of piece, cost and how to get it; () where all is there."""
    rows = [
        {"piece": name, "costs": costs, "get": get or f"pip install {name}"}
        for module, (name, costs, get) in _MODULES.items()
        if importlib.util.find_spec(module) is None
    ]
    return rows + _plugins() + _devices_and_compilers() + _execution_backends()


def _plugins() -> list[dict[str, str]]:
    return [
        _row(
            f"{record.name} of {record.distribution}",
            f"{record.kind} {record.name} is {record.state}: {record.reason}",
            "set TILE_BACKENDS to choose one" if record.state == "conflict" else "install matching releases",
        )
        for record in registry.records(loaded=True)
        if record.state in ("broken", "incompatible", "conflict")
    ]


def _devices_and_compilers() -> list[dict[str, str]]:
    rows: list[dict[str, str]] = []
    for backend in registry.backends():
        outcome = registry.current().detect(backend)
        kinds = ", ".join(backend.kinds)
        if isinstance(outcome, Reason):
            done = "compiled, but not run here" if backend.toolchain is not None else "lowered and shown only"
            costs = f"kernels for {kinds} are {done} ({outcome.text})"
            rows.append(_row(f"a device for {kinds}", costs, outcome.help or "run on a machine that has one"))
        if backend.toolchain is None:
            continue
        for kind in backend.kinds:
            try:
                resolve(backend.toolchain).identity(resolve(backend.resolve_target)(Target(kind)))
            except TileError as error:
                costs = f"kernels for {kind} are not built; those in the cache still load ({error.summary})"
                rows.append(_row(f"a compiler for {kind}", costs, error.help or ""))
            except Exception as error:
                rows.append(_row(f"a compiler for {kind}", f"asking for it raised {type(error).__name__}: {error}", ""))
    return rows


def _execution_backends() -> list[dict[str, str]]:
    rows: list[dict[str, str]] = []
    for spec in registry.current().ready("tile.execution_backends"):
        try:
            outcome: Any = resolve(spec.available)()
        except Exception as error:
            outcome = Reason(f"asking raised {type(error).__name__}: {error}")
        if isinstance(outcome, Reason):
            costs = f"no execution_backend={spec.name!r}; the next one of the target is taken ({outcome.text})"
            rows.append(_row(f"execution backend {spec.name}", costs, outcome.help))
    return rows


def _row(piece: str, costs: str, get: str) -> dict[str, str]:
    return {"piece": piece, "costs": costs, "get": get or "see its documentation"}
