"""Helpers for tests of Tile, of its plugins and of kernels.

Imported explicitly; nothing here is loaded by tile_core. Loading ``tile_core.testing.plugin`` in pytest gives the fixtures.
"""
