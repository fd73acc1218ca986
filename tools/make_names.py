# ruff: noqa: E501 - lines of Markdown
"""Write docs/reference/names.md: each name that a kernel may use, where it works and which tests use it, or what the
error says.

    python tools/make_names.py            write it
    python tools/make_names.py --check    exit 1 where the page is not current

The names are those of `language_names.txt` and whatever else `tile_core.language` has; where a name works is what
`name_probes.py` claims, which a test verifies; which tests use a name is found in their text.
"""

from __future__ import annotations

import re
import sys
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "reference" / "names.md"
NAMES = Path(__file__).with_name("language_names.txt")
TESTS = ("packages/*/tests/**/*.py", "plugins/*/tests/**/*.py", "integration_tests/**/*.py", "docs/examples/*.py")
OTHERS = "Names of this version alone"
_WHERE = {"interpreter": "interpreter", "cpu": "CPU", "cuda": "CUDA"}


def main(arguments: list[str]) -> int:
    """Writes or checks the page; returns the exit code."""
    text = page()
    if PAGE.exists() and PAGE.read_text(encoding="utf-8") == text:
        return 0
    if "--check" in arguments:
        print(f"{PAGE.relative_to(ROOT)} is not current; run python tools/make_names.py")
        return 1
    PAGE.write_text(text, encoding="utf-8")
    return 0


def page() -> str:
    """The page as it should be."""
    from tile_core.language.absent import ABSENT

    sections = subjects()
    names = [name for row in sections.values() for name in row]
    supported = [name for name in names if has(name)]
    lines = [
        "# Names",
        "<!-- Made by tools/make_names.py; edit tools/language_names.txt, tools/name_probes.py or the language. -->",
        "",
        "Every name that kernels of this language use. *Where*: the smallest use of the name is interpreted, and compiled for that target. *Tests*: the",
        "first files whose text uses the name; most names occur in more. A name that is missing says in its error what it belongs to and what to write",
        f"instead. {len(supported)} of {len(names)} names are supported; {sum(n in ABSENT for n in names)} belong to something else.",
        "",
        "Every scalar element type but bool, handle and void has vector types of 2, 4, 8, 16, 32 and 64 lanes: `T.float16x8`.",
    ]
    for subject, row in sections.items():
        lines += ["", f"## {subject}", "", "| name | where | tests |", "|---|---|---|"]
        lines += [line(name) for name in row if has(name)]
        missing = [name for name in row if not has(name)]
        if missing:
            lines += ["", "| not available | the error says |", "|---|---|"]
            lines += [absent_line(name) for name in missing]
    # A subject of which nothing is supported has no first table.
    text = "\n".join(lines) + "\n"
    return text.replace("| name | where | tests |\n|---|---|---|\n\n", "")


def subjects() -> dict[str, list[str]]:
    """Subject → names; the last subject holds what the language has beside them."""
    import tile_core.language as T

    found: dict[str, list[str]] = {}
    for text in NAMES.read_text(encoding="utf-8").splitlines():
        if text.startswith("## "):
            found[text[3:]] = []
        elif text and not text.startswith("#"):
            list(found.values())[-1].extend(text.split())
    known = {name for row in found.values() for name in row}
    dialect = getattr(T, "cuda", T)
    found[OTHERS] = sorted({*T.__all__, *dialect.__all__} - known)
    return found


@cache
def has(name: str) -> bool:
    """Whether the language, or the CUDA dialect, has the name."""
    import tile_core.language as T
    from tile_core.language.names import LanguageNameError

    if name in T.__all__:
        return True
    try:
        return name in getattr(getattr(T, "cuda", T), "__all__", ())
    except LanguageNameError:
        return False


def line(name: str) -> str:
    """The row of a supported name."""
    from tools.name_probes import PROBES

    probe = PROBES.get(name)
    where = ", ".join(_WHERE[w] for w in probe.where) if probe else "–"
    return f"| `{name}` | {where} | {', '.join(tests_of(name)) or '–'} |"


def absent_line(name: str) -> str:
    """The row of a missing name: what its error says."""
    from tile_core.language.names import LanguageNameError, missing_name

    try:
        missing_name(name, ())
    except LanguageNameError as error:
        said = "; ".join([*(f for f in error.facts if not f.startswith("dialects")), error.help or ""])
        return f"| `{name}` | {said.replace('|', chr(92) + '|')} |"
    raise AssertionError(f"{name} is missing and there is no error")


def tests_of(name: str) -> list[str]:
    """The first two test files that use a name; the test of probes where there is none but it."""
    from tools.name_probes import PROBES

    found = [path for path, used in texts().items() if name in used]
    if not found and name in PROBES:
        found = ["integration_tests/conformance/test_names.py"]
    return [f"`{path}`" for path in found[:2]]


@cache
def texts() -> dict[str, frozenset[str]]:
    """Test file → names of T in it: written as T.name, as words of a file that takes names from strings, or as an
    element type in quotes."""
    from tile_core.dtypes import SCALAR_NAMES

    found = {}
    for pattern in TESTS:
        for path in sorted(ROOT.glob(pattern)):
            if "acme" in path.parts:
                continue
            text = path.read_text(encoding="utf-8")
            used = set(re.findall(r"\bT\.(\w+)", text))
            if re.search(r"getattr\(T, |T\.\{", text):
                used.update(re.findall(r"\w+", " ".join(re.findall(r"\"([^\"\n]*)\"", text))))
            used.update(set(re.findall(r"\"(\w+)\"", text)) & set(SCALAR_NAMES))
            found[str(path.relative_to(ROOT))] = frozenset(used)
    return found


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    sys.exit(main(sys.argv[1:]))
