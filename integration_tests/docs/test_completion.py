"""An editor completes names in a kernel and shows their texts: asked of the type checker's own language server."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tile_core.dtypes import DType

ROOT = Path(__file__).parents[2]
KERNEL = """import tile_core.language as T


@T.prim_func
def kernel(A: T.Tensor((64,), "float32")):
    with T.Kernel(1) as bx:
        tile = T.alloc_shared((64,), "float32")
        T.copy(A, tile)
        T.
        tile.
        T.float16x8.
"""


class Server:
    """A language server on a pipe; requests are answered in order."""

    def __init__(self, program, folder):
        # The server asks the first python on PATH where modules are.
        path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])
        self.process = subprocess.Popen(
            [program, "--stdio"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=folder,
            env={**os.environ, "PATH": path},
        )
        self.count = 0

    def send(self, method, params, notify=False):
        message = {"jsonrpc": "2.0", "method": method, "params": params}
        if not notify:
            self.count += 1
            message["id"] = self.count
        self._write(message)
        return None if notify else self._answer(self.count)

    def _write(self, message):
        body = json.dumps(message).encode()
        self.process.stdin.write(b"Content-Length: %d\r\n\r\n" % len(body) + body)
        self.process.stdin.flush()

    def _answer(self, number):
        while True:
            message = self._read()
            if "method" in message and "id" in message:
                # The server asks, too: for settings, and to be allowed to register things.
                asked = message["params"].get("items", []) if message.get("params") else []
                self._write({"jsonrpc": "2.0", "id": message["id"], "result": [{} for _ in asked] or None})
            elif message.get("id") == number:
                assert "error" not in message, message["error"]
                return message["result"]

    def _read(self):
        length = 0
        while True:
            line = self.process.stdout.readline().strip()
            if not line:
                return json.loads(self.process.stdout.read(length))
            if line.lower().startswith(b"content-length:"):
                length = int(line.split(b":")[1])


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    beside = Path(sys.executable).with_name("basedpyright-langserver")
    program = str(beside) if beside.exists() else shutil.which("basedpyright-langserver")
    assert program is not None, "basedpyright is missing; tools/dev.py makes an environment that has it"
    folder = tmp_path_factory.mktemp("editor")
    paths = [str(p) for p in ROOT.glob("p*/*/src")]
    (folder / "pyrightconfig.json").write_text(json.dumps({"extraPaths": paths}))
    server = Server(program, folder)
    server.send("initialize", {"processId": None, "rootUri": folder.as_uri(), "capabilities": {}})
    server.send("initialized", {}, notify=True)
    uri = (folder / "kernel.py").as_uri()
    document = {"uri": uri, "languageId": "python", "version": 1, "text": KERNEL}
    server.send("textDocument/didOpen", {"textDocument": document}, notify=True)
    server.uri = uri
    yield server
    server.process.kill()
    server.process.wait()


def completions(server, line):
    """Completions at the end of the line of the kernel that has this text."""
    lines = KERNEL.splitlines()
    number = lines.index(f"        {line}")
    position = {"line": number, "character": len(lines[number])}
    found = server.send("textDocument/completion", {"textDocument": {"uri": server.uri}, "position": position})
    return {item["label"]: item for item in (found["items"] if isinstance(found, dict) else found)}


@pytest.mark.slow
@pytest.mark.layer("docs")
def test_names_of_the_language_complete_with_their_texts(server):
    found = completions(server, "T.")
    assert {"alloc_shared", "gemm", "Pipelined", "float16", "float16x8", "cuda"} <= set(found)
    resolved = server.send("completionItem/resolve", found["alloc_shared"])
    text = str(resolved["documentation"])
    assert "A tile that all threads of the block see" in text
    assert "dtype: element type" in text


@pytest.mark.slow
@pytest.mark.layer("docs")
def test_members_of_tiles_and_element_types_complete(server):
    assert {"shape", "dtype", "scope"} <= set(completions(server, "tile."))
    members = {name for name in dir(DType) if not name.startswith("_")}
    assert {"bits", "lanes"} <= members & set(completions(server, "T.float16x8."))


@pytest.mark.slow
@pytest.mark.layer("docs")
def test_a_name_shows_its_text(server):
    lines = KERNEL.splitlines()
    number = next(i for i, line in enumerate(lines) if "T.copy" in line)
    position = {"line": number, "character": lines[number].index("copy") + 1}
    shown = server.send("textDocument/hover", {"textDocument": {"uri": server.uri}, "position": position})
    assert "Copies a tile between any two memories" in str(shown["contents"])
