"""Tuning: the fastest of many configurations of a kernel."""

from .decorator import autotune
from .inputs import get_autotune_inputs, set_autotune_inputs
from .result import AutotuneResult, Trial, TuneError
from .suggest import attention_configs, elementwise_configs, matmul_configs
from .tuner import AutoTuner

__all__ = [
    "AutoTuner",
    "AutotuneResult",
    "Trial",
    "TuneError",
    "attention_configs",
    "autotune",
    "elementwise_configs",
    "get_autotune_inputs",
    "matmul_configs",
    "set_autotune_inputs",
]
