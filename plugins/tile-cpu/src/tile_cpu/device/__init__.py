"""The C++ headers that generated kernels include; `python -m tile_cpu.device` writes the one made from tables."""
