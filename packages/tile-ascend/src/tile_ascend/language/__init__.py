"""The Ascend dialect: the common names of `tile_core.language`. Names of Ascend's own come with its code generation."""

from tile_core.language import *  # noqa: F403
from tile_core.language import __all__  # noqa: F401
