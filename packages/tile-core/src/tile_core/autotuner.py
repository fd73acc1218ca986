"""Finding configurations, by TileLang's module name: `autotune`, and what the runtime offers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .offers import autotune, named_part

if TYPE_CHECKING:
    AutoTuner: Any
    AutotuneResult: Any
    get_autotune_inputs: Any
    set_autotune_inputs: Any

__all__ = ["AutoTuner", "AutotuneResult", "autotune", "get_autotune_inputs", "set_autotune_inputs"]


def __getattr__(name: str) -> Any:
    return named_part(__name__, name, __all__)
