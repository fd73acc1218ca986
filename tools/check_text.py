"""What must not be in a committed text file: a path of one machine, the name of a package registry's host.

Files that grew too long are listed as well, so that somebody splits them by subject; that is a warning, not a fault.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from tools.workspace import ROOT, committed_files, report

LONGEST = 600

# Built from pieces, else this file would find itself.
MACHINE_PATHS = re.compile(r"(?<![\w.$}~])/(?:work|root|home/\w+|" + "tmp/(?:w|venv)" + r")/")
REGISTRY_HOSTS = re.compile(
    "|".join(re.escape(host) for host in ("pypi" + ".org", "files.python" + "hosted", "registry.npm" + "js"))
)

TEXT = {
    ".py",
    ".pyi",
    ".md",
    ".toml",
    ".txt",
    ".yml",
    ".yaml",
    ".cfg",
    ".h",
    ".c",
    ".cpp",
    ".cu",
    ".cuh",
    ".sh",
    ".json",
    ".html",
    ".css",
    "",
}


def check(files: list[Path], root: Path = ROOT) -> tuple[list[str], list[str]]:
    """(faults, warnings) of the files, each `path:line: what, and what to do`."""
    faults, warnings = [], []
    for file in files:
        if file.suffix not in TEXT:
            continue
        where = file.relative_to(root)
        try:
            lines = file.read_text(encoding="utf-8").splitlines()
        except UnicodeDecodeError:
            faults.append(f"{where}: not UTF-8")
            continue
        for number, line in enumerate(lines, 1):
            if MACHINE_PATHS.search(line):
                faults.append(f"{where}:{number}: names a path of one machine; say it relative to the repository")
            if REGISTRY_HOSTS.search(line):
                faults.append(f"{where}:{number}: names a package registry's host; name the package only")
        if file.suffix == ".py" and len(lines) > LONGEST:
            warnings.append(f"warning: {where}: {len(lines)} lines, more than {LONGEST}; split it by subject")
    return faults, warnings


if __name__ == "__main__":
    found, warned = check(committed_files())
    print("\n".join(warned))
    sys.exit(report(found, "text of committed files"))
