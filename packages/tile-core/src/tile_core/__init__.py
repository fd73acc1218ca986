"""Tile language, IR, layouts, passes and the backend interface."""
