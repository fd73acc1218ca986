"""The header of formats and conversions is the one that the tables make."""

from __future__ import annotations

from tile_cpu.device.__main__ import PATH, render


def test_the_header_is_current():
    assert PATH.read_text(encoding="utf-8") == render(), "run python -m tile_cpu.device"
