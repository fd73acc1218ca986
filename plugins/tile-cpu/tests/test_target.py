"""cpu targets: names, features, and what is refused."""

import pytest

from tile_core.errors import TargetError
from tile_core.target import parse_target
from tile_cpu.target import detect, resolve_target


def test_a_plain_target_is_this_machine():
    target = resolve_target(parse_target("cpu"))
    assert target.get("mcpu") == "native"
    assert target.get("vector_bits") in (128, 256, 512)
    assert target.get("features")


def test_resolving_twice_changes_nothing():
    target = resolve_target(parse_target("cpu"))
    assert resolve_target(target) == target
    assert resolve_target(parse_target(str(target))) == target


@pytest.mark.parametrize(
    ("name", "bits", "fma"), [("x86-64", 128, 0), ("x86-64-v3", 256, 1), ("x86-64-v4", 512, 1), ("armv8-a", 128, 1)]
)
def test_a_named_level_does_not_depend_on_the_machine(name, bits, fma):
    target = resolve_target(parse_target(f"cpu -mcpu={name}"))
    assert str(target) == f"cpu -fma={fma} -mcpu={name} -vector_bits={bits}"


@pytest.mark.parametrize(
    ("text", "code", "part"),
    [
        ("cpu -arch=sm_90", "E-TARGET-OPTION", "-arch, which the CPU backend does not know"),
        ("cpu -mcpu=z80", "E-TARGET-CPU", "'z80'"),
        ("cpu -vector_bits=384", "E-TARGET-OPTION", "allowed: 128, 256, 512"),
        ("cpu -fma=yes", "E-TARGET-OPTION", "allowed: 0, 1"),
    ],
)
def test_what_is_not_known_is_refused_with_what_is(text, code, part):
    with pytest.raises(TargetError) as error:
        resolve_target(parse_target(text))
    assert error.value.code == code
    assert part in str(error.value)


def test_a_cpu_is_always_there():
    assert detect()
