"""Random pipelined loops compute what the loops as written compute: with stages that the compiler chose, and with
stages and orders at random, which are refused or right."""

from __future__ import annotations

import random

import numpy as np
import pytest

from tile_core.errors import CompileError
from tile_core.interpreter import interpret
from tile_core.ir import For, IRModule, PrimFunc, Rewriter
from tile_core.target import Target
from tile_core.testing.pipelines import random_pipeline
from tile_core.transform import LayoutInference, PassContext, Pipeline, PipelinePlanning, SelectInstructions
from tile_core.transform.inject_software_pipeline import InjectSoftwarePipeline
from tile_core.transform.pipeline_schedule import split_body, written_buffers


class AtRandom(Rewriter):
    """Gives pipelined loops stages and orders."""

    def __init__(self, chance: random.Random) -> None:
        super().__init__()
        self.chance = chance

    def rewrite_For(self, node: For):
        new = self.rewrite_children(node)
        if node.kind != "pipelined":
            return new
        count = len(split_body(node.body, written_buffers(node.body))[2])
        stages = [self.chance.randint(0, 2) for _ in range(count)]
        order = list(range(count))
        if self.chance.random() < 0.7:
            stages.sort()
        if self.chance.random() < 0.6:
            self.chance.shuffle(order)
        return new.with_(annotations=(("stage", tuple(stages)), ("order", tuple(order))))


def check(function: PrimFunc) -> None:
    context = PassContext(Target("none"))
    before = Pipeline("before", [SelectInstructions, LayoutInference]).run(IRModule((function,)), context)
    after = Pipeline("after", [PipelinePlanning, InjectSoftwarePipeline()], start="LAID_OUT").run(before, context)
    for trips in range(7):
        values = np.random.default_rng(trips)
        wanted = [values.random((16, 8), "f4"), values.random((16, 8), "f4"), np.zeros(8, "f4")]
        found = [array.copy() for array in wanted]
        interpret(before["main"], *wanted, trips)
        interpret(after["main"], *found, trips)
        for name, a, b in zip("GHR", wanted, found):
            np.testing.assert_array_equal(a, b, err_msg=f"{name}, {trips} trips, of {function.script()}")


def refused_or_right(seed: int) -> bool:
    function = random_pipeline(seed)
    function = function.with_(body=AtRandom(random.Random(seed)).rewrite(function.body))
    try:
        check(function)
    except CompileError as error:
        assert error.code in ("E-PIPELINED-DEPENDENCE", "E-PIPELINED-VERSIONS")
        return False
    return True


@pytest.mark.layer("fuzz")
def test_stages_that_the_compiler_chose():
    for seed in range(20):
        check(random_pipeline(seed))


@pytest.mark.layer("fuzz")
def test_stages_and_orders_at_random():
    right = sum(refused_or_right(seed) for seed in range(40))
    assert 5 <= right <= 35


@pytest.mark.slow
@pytest.mark.layer("fuzz")
def test_more_of_both():
    for seed in range(100, 250):
        check(random_pipeline(seed))
        refused_or_right(seed)
