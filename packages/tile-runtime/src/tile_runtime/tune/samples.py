"""The inputs that configurations are measured on, and the results that they should give.

Configurations with the same parameters share them: they are made once, in this process, and handed to measuring
processes as a file (to other machines as bytes).
"""

from __future__ import annotations

import io
import platform
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tile_core.errors import OptionError
from tile_core.ir import PrimFunc
from tile_core.settings import settings
from tile_core.target import Target

from ..profile.bench import do_bench
from ..profile.supply import supply_tensor
from ..signature import Signature
from .profile_args import ProfileArgs

__all__ = ["Samples"]

SEED = 0x711E


class Samples:
    """A context manager: its folder of tensors goes when it ends.

    Args:
        profile: what the caller said.
        given: the caller's tensors, for every configuration; None where they are made.
        kind: of the target: where tensors are made.
    """

    def __init__(self, profile: ProfileArgs, given: Sequence[Any] | None, kind: str) -> None:
        self.kind = kind
        self.profile = profile
        self.given = given
        self._folder = tempfile.TemporaryDirectory(prefix="tile-tune-")
        self._made: dict[str, tuple[list[Any], list[Any]]] = {}
        self._files: dict[str, Path] = {}

    def __enter__(self) -> Samples:
        return self

    def __exit__(self, *exception: object) -> None:
        self._folder.cleanup()

    def prepare(self, function: PrimFunc, inputs: Sequence[Any] | None) -> None:
        """Makes what is needed for a configuration, so that a wrong supply or reference is found before anything
        runs."""
        self._of(function, inputs)

    def describe(self, function: PrimFunc, inputs: Sequence[Any] | None) -> list[Any]:
        """Shapes, types and strides, for a cache key."""
        found: list[Any] = ["given" if self.given is not None or inputs is not None else "made"]
        for item in self._of(function, inputs)[0]:
            if hasattr(item, "shape"):
                found.append([list(item.shape), str(item.dtype), list(item.stride())])
            else:
                found.append(repr(item))
        return found

    def data(self, function: PrimFunc, inputs: Sequence[Any] | None, inline: bool) -> str | bytes:
        """The file with inputs and expected results, or its bytes."""
        import torch

        made, expected = self._of(function, inputs)
        saved = {"inputs": [_here(item) for item in made], "expected": [_here(item) for item in expected]}
        if inline:
            buffer = io.BytesIO()
            torch.save(saved, buffer)
            return buffer.getvalue()
        name = self._name(function, inputs)
        path = self._files.get(name)
        if path is None:
            path = self._files[name] = Path(self._folder.name) / f"{len(self._files)}.pt"
            torch.save(saved, path)
        return str(path)

    @property
    def by_hand(self) -> bool:
        """Whether the caller checks results with a function of its own."""
        return self.profile.manual_check_prog is not None and not self.profile.skip_check

    def check_by_hand(self, function: PrimFunc, inputs: Sequence[Any] | None, saved: bytes | None) -> str | None:
        """What the caller's own check says of saved results; None where it is content, or where there is none."""
        import torch

        if not self.by_hand or saved is None:
            return None
        assert self.profile.manual_check_prog is not None
        results = torch.load(io.BytesIO(saved), weights_only=True)
        expected = [_here(item) for item in self._of(function, inputs)[1]]
        try:
            self.profile.manual_check_prog(results, expected)
        except Exception as error:
            return " ".join(str(error).split()) or type(error).__name__
        return None

    def ref_latency(self, function: PrimFunc) -> float | None:
        """Milliseconds of the reference on the same inputs; None without one."""
        if self.profile.ref_prog is None:
            return None
        made = next((inputs for inputs, _ in self._made.values()), None)
        if made is None:
            return None
        ref_prog = self.profile.ref_prog
        found = do_bench(
            lambda: ref_prog(*made), warmup=self.profile.warmup, rep=self.profile.rep, return_mode="median",
            backend="wall" if self._on_cpu(made) else "auto",
        )  # fmt: skip
        return float(found)  # type: ignore[arg-type]

    def device(self, target: Target) -> str:
        """Where kernels of a target run."""
        return "cuda" if target.kind == "cuda" else "cpu"

    def device_name(self, target: Target) -> str:
        """What a time depends on besides the kernel."""
        if target.kind == "cuda":
            import torch

            return torch.cuda.get_device_name() if torch.cuda.is_available() else "no device"
        from ..profile.devices import _cpu_name

        return f"{_cpu_name() or platform.machine()}, {settings.num_threads or 'default'} threads"

    def _of(self, function: PrimFunc, inputs: Sequence[Any] | None) -> tuple[list[Any], list[Any]]:
        name = self._name(function, inputs)
        found = self._made.get(name)
        if found is None:
            made = self._make(function, inputs)
            found = self._made[name] = (made, self._expected(function, made))
        return found

    def _name(self, function: PrimFunc, inputs: Sequence[Any] | None) -> str:
        if self.given is not None or inputs is not None:
            return f"given {function.attr('out_idx', ())}"
        params = ", ".join(map(str, Signature(function).params))
        fresh = self.profile.supply_prog is not None and not self.profile.cache_input_tensors
        return f"{params} {id(function) if fresh else ''}"

    def _make(self, function: PrimFunc, inputs: Sequence[Any] | None) -> list[Any]:
        signature = Signature(function)
        if self.given is not None or inputs is not None:
            found = list(self.given if self.given is not None else inputs or ())
        elif self.profile.supply_prog is not None:
            supplied = self.profile.supply_prog(list(signature.params))
            found = list(supplied) if isinstance(supplied, (list, tuple)) else [supplied]
        else:
            return self._generated(signature)
        if len(found) != len(signature.inputs):
            raise OptionError(
                "E-TUNE-OPTION",
                f"{signature.name} takes {len(signature.inputs)} inputs, and {len(found)} are supplied for tuning",
                facts=(f"inputs: {', '.join(map(str, signature.inputs))}",),
                help="supply one for each input parameter, in order",
            )
        return found

    def _generated(self, signature: Signature) -> list[Any]:
        import torch

        on_gpu = self.kind == "cuda" and torch.cuda.is_available()
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(SEED)
            kind = self.profile.supply_type
            made = [
                supply_tensor(signature.shape_of(param), param.dtype, kind) if param.is_tensor else 1
                for param in signature.inputs
            ]
        return [item.cuda() if on_gpu and isinstance(item, torch.Tensor) else item for item in made]

    def _expected(self, function: PrimFunc, made: list[Any]) -> list[Any]:
        if self.profile.ref_prog is None or self.profile.skip_check:
            return []
        from ..profile.profiler import _copied, _is_tensor, _listed

        copies = _copied(made)
        returned = self.profile.ref_prog(*copies)
        if Signature(function).outputs:
            return _listed(returned)
        return [item for item in copies if _is_tensor(item)]

    def _on_cpu(self, made: Sequence[Any]) -> bool:
        return all(getattr(item, "device", None) is None or item.device.type == "cpu" for item in made)


def _here(item: Any) -> Any:
    return item.detach().cpu() if hasattr(item, "detach") else item
