"""CPU backend of Tile: C code for the host's own compiler, and the reference for third-party backends."""
