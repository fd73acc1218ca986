# ruff: noqa: E501 - lines of Markdown
"""Write docs/walkthrough.md: one kernel on its whole way, with the IR that the passes really print.

python tools/make_walkthrough.py           rewrite the page
python tools/make_walkthrough.py --check   exit 1 where it is not current
"""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "walkthrough.md"
KERNEL = ROOT / "docs" / "examples" / "walkthrough_kernel.py"
TARGET = "cpu -mcpu=x86-64-v3"  # one instruction set for everybody, so that the page does not depend on the machine

# What to say after a pass. Passes that change nothing in this kernel are listed at the end.
TEXT = {
    "BindTarget": "The function remembers what it is compiled for.",
    "InjectAssumes": "What is known about sizes becomes a fact that the prover can use: a dimension is never negative.",
    "Simplify": "Index arithmetic becomes canonical, facts decide what they can.",
    "SelectInstructions": "Every tile op has its candidate now: the cheapest that is legal here. `kernel.explain()` shows what declined, and why.",
    "LayoutInference": "The candidates' wishes decide how each on-chip tile lies in memory.",
    "PipelinePlanning": "The pipelined loop has logical pipes: which buffer goes from which statement to which, and how deep.",
    "SerializePipelines": "A CPU core runs copy and compute one after the other, so the loop becomes serial.",
    "LowerTileOp": "Candidates write themselves out: copies and element-wise loops become loops over elements, the gemm one call of the micro-kernel.",
    "ApplyLayouts": "Tile indices become positions in memory.",
    "LegalizeSafeMemoryAccess": "Accesses to global tensors that may fall outside are guarded: reads give zero, writes are dropped.",
    "LoopUnswitching": "The usual case, a tile that lies inside, gets a loop of its own without guards.",
    "TightenLoopBounds": "A guard that only cuts a loop short becomes the loop's bound.",
    "LowerParallelLoops": "Independent iterations become vectors, with the axis that is contiguous in memory as lanes.",
    "LowerThreadCode": "A block runs on one CPU thread, so what the user wrote for many becomes a loop over them.",
    "FlattenBuffer": "Buffers have one dimension; an index is a number of elements, as wide as it must be.",
    "VectorizeLoop": "Vector loops become ramps and broadcasts; a tail is the same code with a predicate.",
    "SplitHostDevice": "The launch becomes a device function of its own.",
    "MakePackedAPI": "The host function checks every argument in a fixed order, binds the sizes, and launches.",
}


def main(arguments: list[str]) -> int:
    """Writes or checks the page; returns the exit code."""
    text = page()
    if PAGE.exists() and PAGE.read_text(encoding="utf-8") == text:
        return 0
    if "--check" in arguments:
        print("docs/walkthrough.md is not current; run python tools/make_walkthrough.py")
        return 1
    PAGE.write_text(text, encoding="utf-8")
    return 0


def page() -> str:
    """The page's text."""
    from tile_core.ir import IRModule
    from tile_core.plugin import registry
    from tile_core.plugin.api import resolve
    from tile_core.target import parse_target
    from tile_core.transform.base import PassContext
    from tile_core.transform.options import Options

    function = _kernel()
    backend = registry.backend_for("cpu")
    target = resolve(backend.resolve_target)(parse_target(TARGET))
    options = Options({})
    context = PassContext(target, options, backend=backend)
    pipeline = resolve(backend.pipeline)(target, options)
    parts = [_opening(function)]
    quiet: list[str] = []
    shown = {"text": IRModule((function,)).script()}

    def observe(pass_, module, form, seconds):
        text = module.script()
        if text == shown["text"]:
            quiet.append(pass_.name)
            return
        shown["text"] = text
        said = TEXT.get(pass_.name, "")
        parts.append(f"## {pass_.name} ({form})\n\n{said}\n\n{_code(text)}")

    module = pipeline.run(IRModule((function,)), context, observe=observe)
    parts.append(
        "## Checks and other passes\n\nThese had nothing to change in this kernel: "
        + ", ".join(f"`{n}`" for n in quiet)
        + "."
    )
    sources = resolve(backend.codegen)(module, target)
    parts.append(
        f"## Generated source\n\nThe kernel half of what the compiler gets:\n\n```cpp\n{sources['kernel.cpp']}```"
    )
    parts.append(_closing(context))
    return "\n\n".join(parts) + "\n"


def _kernel():
    specification = importlib.util.spec_from_file_location("walkthrough_kernel", KERNEL)
    assert specification is not None and specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module.main


def _code(text: str) -> str:
    return f"```python\n{text.rstrip()}\n```"


def _opening(function) -> str:
    return f"""# One kernel, the whole way

<!-- Made by tools/make_walkthrough.py from what the compiler prints. -->

The kernel multiplies two matrices and halves what is negative. It says nothing about the machine: blocks, tiles, a pipelined loop.

```python
{KERNEL.read_text(encoding="utf-8").rstrip()}
```

What follows is the IR after each pass that changed it, for the target `{TARGET}`. The same is printed for any file by `tile show ir FILE`, and
as a page with differences by `tile show ir FILE --html page.html`. The words are explained in [Architecture](architecture.md).

## What the frontend makes (TILE)

Python has run once. Loops over expressions are loops of the IR, tile ops stand for themselves, and every node knows its line.

{_code(function.script())}"""


def _closing(context) -> str:
    rows = ["| op | taken | declined |", "|---|---|---|"]
    for choice in context.choices:
        declined = "; ".join(f"{name}: {reason}" for name, reason in choice.considered if name != choice.taken) or "–"
        rows.append(f"| `{type(choice.op).__name__.lower()}` | {choice.taken} | {declined} |")
    table = "\n".join(rows)
    return f"""## Explain

{table}

The compiler turns the source into a shared library, which `tile_runtime` keeps on disk under a key made of this IR, the options, the target and the
compiler's identity. The `tvm_ffi` execution backend loads it and calls the packed function with torch tensors, without a copy."""


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
