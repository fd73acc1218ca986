from __future__ import annotations

import ctypes.util
import subprocess
import sys

import pytest

from tile_ascend.driver import detect
from tile_ascend.plugin import BACKEND
from tile_ascend.target import CHIPS, chip, resolve_target
from tile_core.errors import PluginError, TargetError
from tile_core.ir import IRModule, find_scope
from tile_core.plugin import Ok, registry, resolve
from tile_core.target import Target, parse_target


@pytest.mark.parametrize(
    ("text", "name"), [(alias.upper(), c.name) for c in CHIPS.values() for alias in (c.name, *c.aliases)]
)
def test_every_name_of_a_chip_gives_its_canonical_id(text, name):
    target = resolve_target(parse_target(f"ascend -chip={text}"))
    assert target == Target("ascend", {"chip": name})
    assert chip(target) is CHIPS[name]


def test_no_two_chips_share_a_name():
    names = [n for c in CHIPS.values() for n in (c.name, *c.aliases)]
    assert len(set(names)) == len(names)


def test_ascend_alone_is_the_default_chip():
    assert resolve_target(Target("ascend")) == Target("ascend", {"chip": "ascend910b"})


def test_advised_limits_stay_within_hard_ones():
    for row in CHIPS.values():
        assert 0 < row.advised_flag_ids <= row.flag_ids
        assert 0 < row.advised_cross_flag_ids <= row.cross_flag_ids


def test_an_unknown_chip_or_option_says_what_is_allowed():
    with pytest.raises(TargetError) as caught:
        resolve_target(parse_target("ascend -chip=ascend310"))
    assert str(caught.value) == (
        "error[E-ASCEND-CHIP]: target ascend -chip=ascend310: 'ascend310' is not a chip that this version of "
        "tile-ascend knows\n"
        "   ascend910b, also called a2, a3, 910b, 910c, ascend910c, dav-2201\n"
        "   ascend950, also called a5, 950, 950pr, 950dt, ascend950pr, ascend950dt, dav-3510\n"
        "  help: write -chip=ascend910b"
    )
    with pytest.raises(TargetError, match="has an option -arch, which the Ascend backend does not know"):
        resolve_target(parse_target("ascend -arch=a5"))


def test_a_machine_without_device_files_has_no_device(tmp_path):
    outcome = detect(tmp_path)
    assert not outcome
    assert outcome.text == f"no Ascend device: {tmp_path}/davinci* does not exist"


def test_a_device_without_its_library_is_told_apart(tmp_path):
    (tmp_path / "davinci0").touch()
    (tmp_path / "davinci_manager").touch()
    outcome = detect(tmp_path, "libno_such_library.so")
    assert not outcome
    assert outcome.text == "davinci0 found, but the driver library libno_such_library.so cannot be loaded"


def test_a_device_with_its_library_is_present(tmp_path):
    (tmp_path / "davinci0").touch()
    any_library = ctypes.util.find_library("c") or "msvcrt"
    assert detect(tmp_path, any_library) == Ok("davinci0")


def test_scopes_have_each_chips_capacity():
    assert [b.name for b in registry.backends() if b.name == "ascend"] == ["ascend"]
    for name, row in CHIPS.items():
        target = Target("ascend", {"chip": name})
        assert find_scope("shared.l0c").capacity(target) == row.l0c
        assert find_scope("shared.l1").capacity(target) == row.l1
    assert find_scope("shared.l1").capacity(Target("cpu")) is None


@pytest.mark.parametrize("entry", [BACKEND.pipeline, BACKEND.codegen])
def test_what_this_version_cannot_do_it_says(entry):
    target = Target("ascend", {"chip": "ascend950"})
    arguments = (target, None) if entry == BACKEND.pipeline else (IRModule(()), target)
    with pytest.raises(PluginError) as caught:
        resolve(entry)(*arguments)
    assert caught.value.code == "E-ASCEND-CODEGEN"
    assert "generates no Ascend code yet; code generation comes with the next release" in str(caught.value)


def test_a_compile_for_ascend_ends_in_that_sentence():
    backend, target = registry.resolve_target("ascend")
    with pytest.raises(PluginError, match="generates no Ascend code yet"):
        registry.resolve_execution_backend("auto", backend, target)


def test_everything_that_the_spec_names_exists():
    for reference in (BACKEND.resolve_target, BACKEND.detect, BACKEND.pipeline, BACKEND.candidates, BACKEND.codegen):
        assert callable(resolve(reference))
    assert tuple(resolve(BACKEND.candidates)()) == ()


def test_reading_the_spec_loads_no_driver_and_no_vendor_package():
    program = (
        "import sys, tile_ascend.plugin; "
        "print([m for m in ('ctypes', 'acl', 'torch', 'torch_npu', 'tile_ascend.driver') if m in sys.modules])"
    )
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert run.stdout == "[]\n"


def test_the_dialect_has_the_common_names_and_is_reached_through_t():
    import tile_ascend.language
    import tile_core.language as T

    assert tile_ascend.language.copy is T.copy
    assert set(T.__all__) <= set(tile_ascend.language.__all__)
    assert T.ascend is tile_ascend.language
