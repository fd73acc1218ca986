"""``python -m tile_cuda.device`` writes both headers from the table."""

from .headers import write_headers

write_headers()
