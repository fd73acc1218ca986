"""How a tuner checks and times."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from tile_core.errors import OptionError

from ..profile import TensorSupplyType
from ..profile.timers import BACKENDS

__all__ = ["ProfileArgs"]


@dataclass(frozen=True)
class ProfileArgs:
    """Arguments of `AutoTuner.set_profile_args`; see `tile_core.autotune`."""

    warmup: float = 25
    rep: float = 100
    timeout: float = 30
    supply_type: TensorSupplyType = TensorSupplyType.Auto
    ref_prog: Callable[..., Any] | None = None
    supply_prog: Callable[..., Any] | None = None
    rtol: float = 1e-2
    atol: float = 1e-2
    max_mismatched_ratio: float = 0.01
    skip_check: bool = False
    manual_check_prog: Callable[..., None] | None = None
    cache_input_tensors: bool = False
    backend: str = "auto"

    def checked(self) -> ProfileArgs:
        """Itself.

        Raises:
            OptionError: E-TUNE-OPTION, a value that has no meaning.
        """
        for name in ("warmup", "rep", "timeout"):
            if not getattr(self, name) > 0:
                raise OptionError(
                    "E-TUNE-OPTION", f"{name}={getattr(self, name)!r}", facts=("allowed: a number above 0",)
                )
        if not isinstance(self.supply_type, TensorSupplyType):
            raise OptionError(
                "E-TUNE-OPTION",
                f"supply_type={self.supply_type!r}",
                facts=(f"allowed: {', '.join(f'TensorSupplyType.{kind.name}' for kind in TensorSupplyType)}",),
            )
        if self.backend not in BACKENDS:
            raise OptionError("E-TUNE-OPTION", f"backend={self.backend!r}", facts=(f"allowed: {', '.join(BACKENDS)}",))
        for name in ("ref_prog", "supply_prog", "manual_check_prog"):
            if getattr(self, name) is not None and not callable(getattr(self, name)):
                raise OptionError("E-TUNE-OPTION", f"{name}={getattr(self, name)!r} cannot be called")
        return self

    def with_budgets(self, warmup: float | None, rep: float | None, timeout: float | None) -> ProfileArgs:
        """With other times where they are given."""
        given = {"warmup": warmup, "rep": rep, "timeout": timeout}
        return replace(self, **{name: value for name, value in given.items() if value is not None}).checked()

    def callbacks(self) -> dict[str, Callable[..., Any] | None]:
        """The caller's functions that take part, by their role."""
        checking = not self.skip_check
        return {
            "ref_prog": self.ref_prog if checking else None,
            "supply_prog": self.supply_prog,
            "manual_check_prog": self.manual_check_prog if checking else None,
        }

    def tolerance(self) -> dict[str, float] | None:
        """For comparing with the reference; None where nothing is compared."""
        if self.skip_check or self.ref_prog is None or self.manual_check_prog is not None:
            return None
        return {"rtol": self.rtol, "atol": self.atol, "max_mismatched_ratio": self.max_mismatched_ratio}

    def key_parts(self) -> dict[str, Any]:
        """What of it a result depends on."""
        return {
            "warmup": float(self.warmup),
            "rep": float(self.rep),
            "timeout": float(self.timeout),
            "supply_type": self.supply_type.name,
            "tolerance": self.tolerance(),
            "backend": self.backend,
        }
