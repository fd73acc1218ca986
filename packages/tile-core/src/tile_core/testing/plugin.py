"""pytest plugin: the fixtures `check_pass`, `golden` and `rng`, and the option ``--update``.

Loading it turns the debug mode of the IR on (nodes refuse mutation, forms are checked after each pass), so it must be
loaded before anything imports tile_core.ir.
"""

from __future__ import annotations

import os
import sys
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

os.environ.setdefault("TILE_DEBUG_IR", "1")

__all__ = ["check_pass", "golden", "rng"]

_edits: Any = None


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds --update."""
    parser.addoption(
        "--update",
        action="store_true",
        help="rewrite the expected texts of check_pass and golden files to what comes out",
    )


@pytest.fixture
def check_pass(request: pytest.FixtureRequest) -> Callable[..., None]:
    """`tile_core.testing.passes.check_pass`; with --update a mismatch rewrites the `after` text in the test file."""
    from .passes import Mismatch
    from .passes import check_pass as check

    def run(*args: Any, **kwargs: Any) -> None:
        try:
            check(*args, **kwargs)
        except Mismatch as mismatch:
            frame = sys._getframe(1)
            path = Path(frame.f_code.co_filename)
            if not request.config.getoption("--update"):
                raise
            if not _pending().replace_argument(path, frame.f_lineno, "after", mismatch.text):
                raise

    return run


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Any:
    """``golden(name, text)``: asserts that the file `name` in the folder ``golden`` beside the test holds `text`."""
    from .update import GoldenFiles

    return GoldenFiles(request.path.parent / "golden", bool(request.config.getoption("--update")))


@pytest.fixture
def rng(request: pytest.FixtureRequest) -> Any:
    """A numpy random generator seeded by the test's name."""
    import numpy

    return numpy.random.default_rng(zlib.crc32(request.node.name.encode()))


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Writes what --update has planned."""
    if _edits is not None:
        for path in _edits.apply():
            print(f"\nupdated {path.name}")


def _pending() -> Any:
    global _edits
    if _edits is None:
        from .update import Edits

        _edits = Edits()
    return _edits
