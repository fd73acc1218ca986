"""Loads the budget plugin for every test of the workspace. Helpers for tests live in tile_core.testing, not here."""

pytest_plugins = ["tools.pytest_budget"]
