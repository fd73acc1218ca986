"""The committed type stub is the one that the tool writes."""

import importlib.util


def test_the_stub_is_current(request):
    path = request.config.rootpath / "tools" / "make_stubs.py"
    spec = importlib.util.spec_from_file_location("make_stubs", path)
    tool = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tool)
    assert tool.STUB.read_text(encoding="utf-8") == tool.stub_text(), "run python tools/make_stubs.py"
