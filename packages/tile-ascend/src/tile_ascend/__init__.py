"""Ascend NPU backend of Tile."""
