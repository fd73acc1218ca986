"""Loads the plugins of the workspace's tests: budgets, and the fixtures of tile_core.testing.

Helpers live there, not here.
"""

import os

# Before anything imports the IR: the tests run in its debug mode.
os.environ.setdefault("TILE_DEBUG_IR", "1")

pytest_plugins = ["tools.pytest_budget", "tile_core.testing.plugin"]
