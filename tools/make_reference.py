# ruff: noqa: E501 - lines of Markdown
"""Write the reference pages that are made from tables: error codes, pass options, settings, intrinsics.

python tools/make_reference.py           rewrite docs/reference/*.md
python tools/make_reference.py --check   exit 1 where a page is not current
"""

from __future__ import annotations

import importlib
import pkgutil
import sys
from pathlib import Path

PAGES = Path(__file__).parents[1] / "docs" / "reference"
PACKAGES = ("tile_core", "tile_runtime", "tile_cuda", "tile_ascend", "tile_cpu", "tile_emulator")
NOTE = "<!-- Made by tools/make_reference.py; edit the table in the source instead. -->"


def main(arguments: list[str]) -> int:
    """Writes or checks the pages; returns the exit code."""
    check = "--check" in arguments
    stale = []
    for name, text in pages().items():
        path = PAGES / name
        if path.exists() and path.read_text(encoding="utf-8") == text:
            continue
        stale.append(name)
        if not check:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
    if check and stale:
        print(f"not current: {', '.join(stale)}; run python tools/make_reference.py")
        return 1
    return 0


def pages() -> dict[str, str]:
    """File name → text."""
    import_everything()
    return {
        "errors.md": errors(),
        "options.md": options(),
        "settings.md": settings(),
        "intrinsics.md": intrinsics(),
        "casts.md": casts(),
    }


def import_everything() -> None:
    """Imports every module of every distribution, so that all tables are filled."""
    for package in PACKAGES:
        module = importlib.import_module(package)
        for found in pkgutil.walk_packages(module.__path__, package + "."):
            if not found.name.startswith("tile_core.testing") and not found.name.endswith("__main__"):
                importlib.import_module(found.name)


def errors() -> str:
    """Every error code with its meaning."""
    from tile_core.errors import CODES

    lines = [
        "# Error codes",
        NOTE,
        "",
        "A code has one meaning and is never used again for another. The text of an error says where, what was found,",
        "what is allowed and how to mend it.",
        "",
        "| code | meaning |",
        "|---|---|",
    ]
    lines += [f"| `{code}` | {meaning} |" for code, meaning in sorted(CODES.items())]
    return "\n".join(lines) + "\n"


def casts() -> str:
    """Every float format, and what each kind of conversion does."""
    from tile_core.casts import FORMATS, ROUNDINGS, cast_rule, number_types

    specials = {
        "ieee": "infinities, NaN",
        "fn": "NaN (all ones)",
        "fnuz": "NaN (the place of -0)",
        "finite": "none",
        "scale": "NaN (all ones); no sign, no zero",
    }
    lines = [
        "# Conversions between element types",
        NOTE,
        "",
        "`T.cast(value, dtype)`, calling a type, and every implicit conversion take the exact value and round it once.",
        "The interpreter, the CPU and CUDA give the same bits; only which NaN comes out (sign, payload) is left open.",
        "",
        "## Float formats",
        "",
        "| type | bits | exponent, mantissa, bias | largest | smallest normal | smallest | what is no number |",
        "|---|---|---|---|---|---|---|",
    ]
    for name, form in FORMATS.items():
        least = form.value(0) if not form.signed else form.value(1)
        normal = 2.0**form.least_exponent
        lines.append(
            f"| `{name}` | {form.bits} | {form.exponent}, {form.mantissa}, {form.bias} | {form.largest_value:.6g} | "
            f"{normal:.6g} | {least:.6g} | {specials[form.specials]} |"
        )
    lines += ["", "## Rounding modes", "", "| `round=` | rounds |", "|---|---|"]
    lines += [f"| `{key}` | {text} |" for key, text in ROUNDINGS.items()]
    lines += [
        "",
        "## Rules",
        "",
        "The first mode is the default. `sat` matters where it says so.",
        "",
        "| to | from | modes | outside the range | NaN |",
        "|---|---|---|---|---|",
    ]
    outside = {
        "wraps": "wraps: the low bits are kept",
        "clamps": "the nearest value of the type",
        "infinity": "infinity (the largest value, where rounding goes towards zero)",
        "saturates": "`sat=True`: the largest value; `sat=False`: infinity, else NaN, else the largest value",
        "truth": "true unless zero",
    }
    nan = {"none": "—", "nan": "NaN", "0": "0", "largest": "the largest value", "true": "true"}
    rows: dict[tuple[str, ...], dict[str, list[str]]] = {}
    for source in number_types():
        for target in number_types():
            if source is target:
                continue
            rule = cast_rule(source, target)
            key = (", ".join(rule.roundings) or "exact", outside[rule.outside], nan[rule.nan])
            rows.setdefault(key, {}).setdefault(str(source), []).append(str(target))
    for (modes, beyond, none), pairs in rows.items():
        to = sorted({t for targets in pairs.values() for t in targets}, key=[str(t) for t in number_types()].index)
        lines.append(f"| {_names(to)} | {_names(list(pairs))} | {modes} | {beyond} | {none} |")
    lines += [
        "",
        "`float8_e8m0fnu` has no zero and no sign: zero and what is negative become its smallest value (`sat=True`) or NaN.",
    ]
    return "\n".join(lines) + "\n"


def _names(names: list[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def options() -> str:
    """Every declared pass option."""
    from tile_core.transform.options import declared_options

    lines = [
        "# Pass options",
        NOTE,
        "",
        "Given as `pass_configs={key: value}` to `tile.jit` and `tile.compile`. An unknown key is an error. A known key",
        "that does not matter for a target is accepted, and `kernel.explain()` lists it.",
        "",
        "| key | default | takes | meaning |",
        "|---|---|---|---|",
    ]
    for key, option in declared_options().items():
        types = option.accepts if isinstance(option.accepts, tuple) else (option.accepts,)
        takes = ", ".join(t.__name__ for t in types)
        lines.append(f"| `{key}` | `{option.default!r}` | {takes} | {option.doc} |")
    return "\n".join(lines) + "\n"


def settings() -> str:
    """Every TILE_* variable."""
    from tile_core.settings import settings_table

    return (
        "\n".join(["# Settings", NOTE, "", "Environment variables, read when they are needed.", "", settings_table()])
        + "\n"
    )


def intrinsics() -> str:
    """Every intrinsic that a Call may carry."""
    from tile_core.ir import intrinsics as table

    lines = [
        "# Intrinsics",
        NOTE,
        "",
        "What a `Call` in the IR may name. `pure` calls may be dropped or merged; memory that a call touches is declared",
        "by the modes of its pointers.",
        "",
        "| name | arguments | result | pure | effect | meaning |",
        "|---|---|---|---|---|---|",
    ]
    for name, row in sorted(table().items()):
        arity = "any" if row.arity is None else row.arity
        lines.append(
            f"| `{name}` | {arity} | {row.result} | {'yes' if row.pure else 'no'} | {row.effect} | {row.doc} |"
        )
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
