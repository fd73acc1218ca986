"""Marks by TileLang's names, as test files of kernels use them."""

import random
import subprocess
import sys

import pytest

import tile_core.testing as testing
from tile_core.testing import marks


@pytest.fixture
def device(monkeypatch):
    """Sets the architecture that the machine seems to have."""

    def set_to(capability):
        monkeypatch.setattr(marks, "_capability", lambda: capability)

    return set_to


def skipped(mark):
    """Whether a decorator skips the test that it stands above."""

    @mark
    def test():
        pass

    (found,) = test.pytestmark
    return found.args[0]


def test_cuda_is_required(device):
    device(None)
    assert skipped(testing.requires_cuda) and skipped(testing.requires_cuda_compute_version(7))
    device((8, 0))
    assert not skipped(testing.requires_cuda)


@pytest.mark.parametrize(
    ("mark", "runs_on"),
    [
        (testing.requires_cuda_compute_version, [(8, 0), (9, 0)]),
        (testing.requires_cuda_compute_version_ge, [(8, 0), (9, 0)]),
        (testing.requires_cuda_compute_version_gt, [(9, 0)]),
        (testing.requires_cuda_compute_version_eq, [(8, 0)]),
        (testing.requires_cuda_compute_version_le, [(7, 5), (8, 0)]),
        (testing.requires_cuda_compute_version_lt, [(7, 5)]),
    ],
)
def test_architectures_are_compared(device, mark, runs_on):
    for capability in [(7, 5), (8, 0), (9, 0)]:
        device(capability)
        assert skipped(mark(8, 0)) is (capability not in runs_on)


def test_an_unknown_comparison():
    with pytest.raises(ValueError, match="none of eq, ge"):
        testing.requires_cuda_compute_version(8, mode="about")


def test_packages_are_required():
    assert not skipped(testing.requires_package("json", "pytest"))
    assert skipped(testing.requires_package("json", "no_such_package_here"))


def test_one_seed_gives_the_same_numbers():
    state = random.getstate()
    try:
        testing.set_random_seed(7)
        first = random.random()
        testing.set_random_seed(7)
        assert random.random() == first
    finally:
        random.setstate(state)


def test_a_file_runs_its_own_tests(tmp_path):
    file = tmp_path / "test_own.py"
    file.write_text(
        "import tile_core.testing\n\ndef test_right(): pass\ndef test_wrong(): assert False\n\n"
        "if __name__ == '__main__':\n    tile_core.testing.main()\n"
    )
    for words, code, said in ((["-k", "right"], 0, "1 passed"), ([], 1, "1 failed, 1 passed")):
        run = subprocess.run(
            [sys.executable, str(file), "-p", "no:cacheprovider", *words], capture_output=True, text=True, cwd=tmp_path
        )
        assert run.returncode == code and said in run.stdout


def test_other_names_are_no_attributes():
    with pytest.raises(AttributeError, match=r"'tile_core\.testing' has no attribute 'requires_luck'"):
        testing.requires_luck
