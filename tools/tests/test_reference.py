"""The pages that are made from tables and from the compiler's own output are current."""

import pytest

from tools import make_reference, make_walkthrough


@pytest.mark.layer("docs")
@pytest.mark.parametrize("name", ["errors.md", "options.md", "settings.md", "intrinsics.md"])
def test_the_reference_page_is_current(name):
    made = make_reference.pages()[name]
    assert (make_reference.PAGES / name).read_text(encoding="utf-8") == made, "run python tools/make_reference.py"


@pytest.mark.layer("docs")
def test_the_walkthrough_is_current():
    page = make_walkthrough.PAGE.read_text(encoding="utf-8")
    assert page == make_walkthrough.page(), "run python tools/make_walkthrough.py"
