"""Walkers dispatch to the classes that programs are made of."""

from __future__ import annotations

import subprocess
import sys


def test_dispatch_does_not_depend_on_when_the_classes_that_node_replaced_are_collected():
    code = """
import gc
gc.disable()
from tile_core import ir

class Walker(ir.Visitor):
    def visit_Block(self, node): ...
    def visit_BufferLoad(self, node): ...

assert set(Walker._table) == {ir.Block, ir.BufferLoad}, Walker._table
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
