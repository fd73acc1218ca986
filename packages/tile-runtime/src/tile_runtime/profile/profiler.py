"""`Profiler`: times a kernel and compares it with a reference, on tensors that it makes or is given."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tile_core.testing.tolerances import tolerance

from ..signature import Signature
from .bench import ReturnMode, do_bench
from .compare import assert_tensors_close
from .supply import TensorSupplyType, supply_tensor

if TYPE_CHECKING:
    import torch

__all__ = ["Profiler"]


class Profiler:
    """Made by `kernel.get_profiler()`.

    Args:
        kernel: the callable; it takes the signature's inputs and returns its outputs (if there are any).
        signature: what it takes.
        supply_type: what generated inputs hold.
        device: where they are made, such as ``cpu`` or ``cuda``.
    """

    def __init__(
        self,
        kernel: Callable[..., Any],
        signature: Signature,
        supply_type: TensorSupplyType = TensorSupplyType.Auto,
        device: Any = "cpu",
    ) -> None:
        self.kernel = kernel
        self.signature = signature
        self.supply_type = supply_type
        self.device = device

    @property
    def func(self) -> Callable[..., Any]:
        """The kernel, by TileLang's name."""
        return self.kernel

    def make_inputs(self, sizes: Mapping[str, int] | None = None) -> list[Any]:
        """An argument for each input parameter. `sizes` gives symbolic dimensions and scalars (else 1), by name."""
        return [
            supply_tensor(self.signature.shape_of(param, sizes), param.dtype, self.supply_type, self.device)
            if param.is_tensor
            else (sizes or {}).get(param.name, 1)
            for param in self.signature.inputs
        ]

    def do_bench(
        self,
        func: Callable[..., Any] | None = None,
        warmup: float = 25,
        rep: float = 100,
        n_warmup: int = 0,
        n_repeat: int = 0,
        input_tensors: Sequence[Any] | None = None,
        backend: str = "auto",
        quantiles: Sequence[float] | None = None,
        return_mode: ReturnMode = "mean",
        dynamic_symbolic_constraints: Mapping[str, int] | None = None,
        device: Any = None,
        early_stop_baseline: float | None = None,
    ) -> float | list[float]:
        """Milliseconds a call of `func` (default: the kernel) on `input_tensors` or generated ones; see `do_bench`."""
        called = self.kernel if func is None else func
        inputs = self._inputs(input_tensors, dynamic_symbolic_constraints)
        return do_bench(
            lambda: called(*inputs),
            warmup=warmup,
            rep=rep,
            n_warmup=n_warmup,
            n_repeat=n_repeat,
            quantiles=quantiles,
            return_mode=return_mode,
            backend=backend if backend != "auto" or str(self.device).startswith("cuda") else "wall",
            device=device,
            early_stop_baseline=early_stop_baseline,
        )

    def assert_allclose(
        self,
        reference_program: Callable[..., Any],
        input_tensors: Sequence[Any] | None = None,
        atol: float | None = None,
        rtol: float | None = None,
        max_mismatched_ratio: float = 0.0,
        dynamic_symbolic_constraints: Mapping[str, int] | None = None,
        terms: int = 1,
    ) -> None:
        """Compares the kernel with `reference_program` on the same inputs.

        A kernel with outputs is compared by what both return. One without is given copies of the inputs, as is the
        reference, and all tensors are compared afterwards (the reference writes into its own, like the kernel).

        Args:
            atol, rtol: |actual - expected| ≤ atol + rtol · |expected|; default: the table of
                `tile_core.testing.tolerances` for the output's type and `terms`.
            max_mismatched_ratio: share of elements that may lie outside.
            terms: length of the accumulation behind an element (K of a gemm), for the default tolerances.

        Raises:
            AssertionError: too many elements differ; the text names the tensor, the worst element and its place.
        """
        inputs = self._inputs(input_tensors, dynamic_symbolic_constraints)
        names, actual, expected = self._both(reference_program, inputs)
        for name, ours, theirs in zip(names, actual, expected, strict=True):
            table = tolerance(str(ours.dtype).removeprefix("torch."), terms)
            assert_tensors_close(
                ours,
                theirs,
                rtol=table.rtol if rtol is None else rtol,
                atol=table.atol if atol is None else atol,
                max_mismatched_ratio=max_mismatched_ratio,
                name=name,
            )

    def manual_assert_close(
        self,
        reference_program: Callable[..., Any],
        input_tensors: Sequence[Any] | None = None,
        manual_check_prog: Callable[[list[torch.Tensor], list[torch.Tensor]], None] | None = None,
        dynamic_symbolic_constraints: Mapping[str, int] | None = None,
    ) -> None:
        """Runs both programs on the same inputs and hands the two lists of results to `manual_check_prog`."""
        if manual_check_prog is None:
            raise TypeError("manual_assert_close needs manual_check_prog, a function of (actual, expected)")
        _, actual, expected = self._both(reference_program, self._inputs(input_tensors, dynamic_symbolic_constraints))
        manual_check_prog(actual, expected)

    def assert_consistent(
        self, repeat: int = 10, dynamic_symbolic_constraints: Mapping[str, int] | None = None
    ) -> None:
        """Runs the kernel `repeat` times on one set of inputs: every run must give the same bits.

        Raises:
            AssertionError: a run differs; a race is the usual cause.
        """
        inputs = self._inputs(None, dynamic_symbolic_constraints)
        names, first = self._results(inputs)
        for run in range(1, repeat):
            _, again = self._results(inputs)
            for name, one, other in zip(names, first, again, strict=True):
                if not _same_bits(one, other):
                    raise AssertionError(f"{self.signature.name}: {name} of run {run} differs from run 0")

    def run_once(self, func: Callable[..., Any] | None = None, sizes: Mapping[str, int] | None = None) -> Any:
        """One call of `func` (default: the kernel) on generated inputs; returns what it returns."""
        return (self.kernel if func is None else func)(*self.make_inputs(sizes))

    def _inputs(self, given: Sequence[Any] | None, sizes: Mapping[str, int] | None) -> list[Any]:
        return list(given) if given is not None else self.make_inputs(sizes)

    def _both(self, reference: Callable[..., Any], inputs: list[Any]) -> tuple[list[str], list[Any], list[Any]]:
        copies = _copied(inputs)
        names, actual = self._results(inputs)
        returned = reference(*copies)
        expected = _listed(returned) if self.signature.outputs else [item for item in copies if _is_tensor(item)]
        if len(expected) != len(actual):
            raise AssertionError(
                f"{self.signature.name}: the kernel gives {len(actual)} tensors ({', '.join(names)}), "
                f"the reference {len(expected)}"
            )
        return names, actual, expected

    def _results(self, inputs: list[Any]) -> tuple[list[str], list[Any]]:
        """Names and tensors that the kernel gives for a copy of `inputs`."""
        copies = _copied(inputs)
        returned = self.kernel(*copies)
        if self.signature.outputs:
            return [param.name for param in self.signature.outputs], _listed(returned)
        names = [param.name for param in self.signature.inputs if param.is_tensor]
        return names, [item for item in copies if _is_tensor(item)]


def _is_tensor(value: Any) -> bool:
    import torch

    return isinstance(value, torch.Tensor)


def _copied(inputs: list[Any]) -> list[Any]:
    """Copies with the same strides (clone alone would make an expanded or sliced tensor contiguous)."""
    import torch

    copies = []
    for item in inputs:
        if isinstance(item, torch.Tensor):
            copy = torch.empty_strided(item.shape, item.stride(), dtype=item.dtype, device=item.device)
            copy.copy_(item)
            copies.append(copy)
        else:
            copies.append(item)
    return copies


def _listed(returned: Any) -> list[Any]:
    return list(returned) if isinstance(returned, (list, tuple)) else [returned]


def _same_bits(one: torch.Tensor, other: torch.Tensor) -> bool:
    import torch

    as_bytes = [tensor.contiguous().view(torch.uint8) for tensor in (one.reshape(-1), other.reshape(-1))]
    return torch.equal(*as_bytes)
