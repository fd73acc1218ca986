"""What factories of kernels ask about the machine, by TileLang's module names."""
