"""The matrix of CUDA kernels (integration_tests/cuda) on a real device: numbers, and a place for NVIDIA's sanitizer.

python benchmarks/cuda_matrix.py                       # every kernel at every trip count, beside its reference
compute-sanitizer --tool racecheck python benchmarks/cuda_matrix.py --only gemm_fp16 softmax …
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).parents[1]))

import tile_core as tile
from integration_tests.cuda import attentions, gemms, moves, rows
from tile_core.testing.compare import assert_close

KERNELS = {**gemms.KERNELS, **attentions.KERNELS, **rows.KERNELS, **moves.KERNELS}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="*", default=sorted(KERNELS))
    given = parser.parse_args()
    failed = 0
    for name in given.only:
        case = KERNELS[name]
        try:
            kernel = tile.compile(case.make(), target=f"cuda -arch={case.arch}")
            for trips in case.trips:
                inputs, expected = case.arguments(trips)
                outputs = [torch.full_like(x, case.start).cuda() for x in expected]
                kernel(*(x.cuda() for x in inputs), *outputs)
                torch.cuda.synchronize()
                for found, right in zip(outputs, expected):
                    label = f"{name}, {trips} trips"
                    assert_close(found.cpu(), right, case.dtype, reduction=case.terms(trips), label=label)
        except Exception as error:
            failed += 1
            print(f"FAILED {name}: {type(error).__name__}: {str(error)[:400]}", flush=True)
    print(f"{len(given.only) - failed} passed, {failed} failed", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    raise SystemExit(main())
