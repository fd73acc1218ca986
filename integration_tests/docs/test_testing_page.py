"""The kernel on the page about testing runs."""

import re
import subprocess
import sys
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "testing.md"


def test_the_kernel_of_the_page_runs(tmp_path):
    (block,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    path = tmp_path / "page.py"
    path.write_text(block, encoding="utf-8")
    subprocess.run([sys.executable, str(path)], check=True)
