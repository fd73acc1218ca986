"""jit, kernel objects, caches, execution backends and torch integration of Tile."""
