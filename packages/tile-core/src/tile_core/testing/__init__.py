"""Helpers for tests of Tile, of its plugins and of kernels.

Imported explicitly; tile_core loads nothing of it. Loading ``tile_core.testing.plugin`` in pytest gives the fixtures.
"""
