"""Every distribution carries its own copy of LICENSE, the same as the root's.

A wheel can't reach outside its folder, and a link dangles in an sdist.
"""

from __future__ import annotations

import sys

from tools.workspace import ROOT, distributions, report


def check() -> list[str]:
    license_text = (ROOT / "LICENSE").read_bytes()
    findings = []
    for distribution in distributions():
        copy = distribution.folder / "LICENSE"
        where = copy.relative_to(ROOT)
        if copy.is_symlink() or not copy.is_file():
            findings.append(f"{where}: not a regular file; copy LICENSE there")
        elif copy.read_bytes() != license_text:
            findings.append(f"{where}: differs from LICENSE; copy it again")
    return findings


if __name__ == "__main__":
    sys.exit(report(check(), "licences"))
