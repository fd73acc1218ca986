"""Orders of what a gemm's main loop does, tried on a GPU by editing the generated source before it is compiled.

    python benchmarks/main_loop.py [--json FILE]

The compiler makes the first: copies of a later tile, then the products of this one. The others issue copies after the
products, between the fragments' loads and the first products, or hold the next tile's first fragments in registers
before its turn comes. Each is checked against torch before it is timed.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Callable
from pathlib import Path

import torch
from cuda_kernels import compare, matmul

import tile_core as tile
import tile_cuda.toolchain.toolchain as toolchain
from tile_core.settings import settings

_LOOP = re.compile(r"\n  #pragma unroll 1\n  for \(int32_t k = (\d+); k < (\d+); \+\+k\) \{\n(.*?)\n  \}\n", re.S)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    rows = []
    compile_device = toolchain.compile_device
    for size in (2048, 4096, 8192):
        a, b = (torch.randn(size, size, device="cuda", dtype=torch.half) for _ in range(2))
        c = torch.empty_like(a)
        for stages in (3, 4, 5):
            for name, edit in ORDERS.items():
                toolchain.compile_device = lambda text, *rest, edit=edit: compile_device(edit(text), *rest)
                function = matmul(size, size, size, 128, 128, 32, stages, 128)

                def build(function=function):
                    with settings.scope(disable_cache=True):
                        return tile.compile(function, target="cuda -arch=sm_80")

                label = f"{size} stages {stages} {name}"
                rows.append(compare(label, build, [a, b], c, torch.matmul))
                print(rows[-1], flush=True)
    if given.json:
        given.json.write_text(json.dumps({"device": torch.cuda.get_device_name(), "rows": rows}, indent=1) + "\n")
    return 0


def plain(source: str) -> str:
    """The order that the compiler made."""
    return source


def after(source: str) -> str:
    """Copies after the products."""
    return _edited(source, lambda p, s: "\n".join([p["wait"], p["declare"], p["step"], p["copies"]]))


def between(source: str) -> str:
    """Copies between the loads of the first fragments and the first products."""

    def body(p: dict[str, str], stages: int) -> str:
        copies = "      if (k_step == 0) {\n" + p["copies"] + "\n      }\n"
        return "\n".join([p["wait"], p["declare"], p["head"], p["loads"], copies + p["products"], "    }"])

    return _edited(source, body)


def ahead(source: str) -> str:
    """The first fragments of the next tile are loaded before the last products of this one."""

    def body(p: dict[str, str], stages: int) -> str:
        first, second = (_of_step(p["loads"], step) for step in (0, 1))
        following = first.replace("(k + 1)", "(k + 2)")
        parts = [second, p["copies"], _of_step(p["products"], 0), p["wait"], following, _of_step(p["products"], 1)]
        return "\n".join(parts)

    def before(p: dict[str, str], stages: int) -> str:
        both = "\n".join(re.sub(r"(\w+_registers)", rf"\1_of_{step}", p["declare"]) for step in (0, 1))
        first = _of_step(p["loads"], 0)
        return f"{both}\n{p['wait']}\n  {{\n    const int32_t k = {stages - 1};\n{first}\n  }}"

    return _edited(source, body, before)


ORDERS = {"plain": plain, "after": after, "between": between, "ahead": ahead}


def _of_step(text: str, step: int) -> str:
    return re.sub(r"(\w+_registers)", rf"\1_of_{step}", re.sub(r"\bk_step\b", str(step), text))


def _edited(source: str, body: Callable[..., str], before: Callable[..., str] | None = None) -> str:
    """The source with the body of its main loop made anew from its parts."""
    found = _LOOP.search(source)
    assert found, "no main loop"
    stages = int(found[1]) + 1
    lines = found[3].split("\n")
    commit = next(i for i, line in enumerate(lines) if "cp_async_commit" in line)
    sync = next(i for i, line in enumerate(lines) if "sync_threads" in line)
    step = next(i for i, line in enumerate(lines) if "k_step = 0" in line)
    products = next(i for i, line in enumerate(lines) if "atom_m = 0" in line) - 1
    parts = {
        "wait": "\n".join(lines[: sync + 1]),
        "copies": "\n".join(lines[sync + 1 : commit + 1]),
        "declare": "\n".join(lines[commit + 1 : step - 1]),
        "step": "\n".join(lines[step - 1 :]),
        "head": "\n".join(lines[step - 1 : step + 1]),
        "loads": "\n".join(lines[step + 1 : products]),
        "products": "\n".join(lines[products:-1]),
    }
    head = before(parts, stages) + "\n" if before else ""
    loop = f"  #pragma unroll 1\n  for (int32_t k = {found[1]}; k < {found[2]}; ++k) {{\n{body(parts, stages)}\n  }}\n"
    return source[: found.start() + 1] + head + loop + source[found.end() :]


if __name__ == "__main__":
    raise SystemExit(main())
