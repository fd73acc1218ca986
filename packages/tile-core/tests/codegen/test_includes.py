"""Files that a user's text includes: found where the compiler finds them, known by content."""

import hashlib

import pytest

from tile_core.codegen.includes import include_digests


def digest(text):
    return hashlib.sha256(text.encode()).hexdigest()


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "inner").mkdir()
    (tmp_path / "a.h").write_text('#include "inner/b.h"\n#include <math.h>\n')
    (tmp_path / "inner" / "b.h").write_text('#pragma once\n#include "../a.h"\n')
    return tmp_path


def test_files_are_followed_once_and_system_headers_are_not(folder):
    both = [digest((folder / name).read_text()) for name in ("a.h", "inner/b.h")]
    assert include_digests(f'int x;\n# include "{folder}/a.h"\n#include <stdio.h>\n') == both
    assert include_digests(repr(f'#include "{folder}/a.h"').replace('"', '\\"')) == both, "as the text of the IR"
    for flags in ([f"-I{folder}"], ["-I", str(folder)], [f"--include-path={folder}"], ["-O1", "-isystem", str(folder)]):
        assert include_digests('#include "a.h"', flags) == both
        assert include_digests("#include <inner/b.h>", flags) == both[::-1]
    assert include_digests("int x;", ["-include", f"{folder}/inner/b.h"]) == both[::-1]
    assert include_digests('#include "a.h"\n#include "absent.h"') == []


def test_the_place_does_not_matter_and_the_content_does(folder, tmp_path_factory):
    other = tmp_path_factory.mktemp("other")
    (other / "x.h").write_text((folder / "inner" / "b.h").read_text())
    assert include_digests(f'#include "{other}/x.h"')[0] == include_digests(f'#include "{folder}/inner/b.h"')[0]
    before = include_digests(f'#include "{folder}/a.h"')
    (folder / "inner" / "b.h").write_text("int y;\n")
    assert include_digests(f'#include "{folder}/a.h"') != before
