"""Helpers around kernels, by TileLang's module names."""
