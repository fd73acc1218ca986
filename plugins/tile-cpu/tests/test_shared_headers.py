"""Headers that share their text with other backends are the ones that core makes."""

from __future__ import annotations

import pytest

from tile_core.codegen.numbers import SHARED_TEXTS
from tile_cpu.device.__main__ import FOLDER, render


@pytest.mark.parametrize("name", SHARED_TEXTS)
def test_the_header_is_current(name):
    assert (FOLDER / f"{name}.h").read_text(encoding="utf-8") == render(name), "run python -m tile_cpu.device"
