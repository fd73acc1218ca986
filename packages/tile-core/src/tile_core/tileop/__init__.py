"""Tile operations: what they mean, and the candidates that carry them out."""
