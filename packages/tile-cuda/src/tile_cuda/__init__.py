"""CUDA backend of Tile."""
