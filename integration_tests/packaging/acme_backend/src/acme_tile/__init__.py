"""A Tile backend written outside the Tile repository: it imports tile_core and nothing else of Tile."""
