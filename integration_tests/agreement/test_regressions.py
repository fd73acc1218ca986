"""Kernels that were wrong once, each the smallest that showed it: interpreter, CPU and emulated CUDA agree."""

from pathlib import Path

import pytest

from tile_core.settings import settings
from tools.fuzz.__main__ import read
from tools.fuzz.judge import judge

KERNELS = sorted((Path(__file__).parent / "regressions").glob("*.py"))


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    """One folder for all: most of the time would go to the emulator's engine otherwise."""
    return tmp_path_factory.mktemp("cache")


@pytest.mark.slow
@pytest.mark.layer("fuzz")
@pytest.mark.parametrize("path", KERNELS, ids=lambda path: path.stem)
def test_a_kernel_that_was_wrong_once(path, cache):
    with settings.scope(cache_dir=cache):
        verdict = judge(read(path))
    assert verdict.kind == "agree", f"{verdict.where}: {verdict.detail}"
    assert not verdict.refused
