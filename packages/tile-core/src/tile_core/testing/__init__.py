"""Helpers for tests of Tile, of its plugins and of kernels. Imported explicitly; nothing here is loaded by tile_core."""
