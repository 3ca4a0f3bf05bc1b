"""The sizes to which buffers of static decoding are rounded up. Imports no torch: the memory plan needs them too."""

from __future__ import annotations

_FEWEST_COLUMNS = 64


def row_bucket(rows: int) -> int:
    """Returns the next power of two."""
    return 1 << (rows - 1).bit_length()


def column_bucket(columns: int) -> int:
    """Two sizes per octave: 64, 128, 192, 256, 384, 512 ... All are multiples of 64, which suits attention kernels."""
    size = max(_FEWEST_COLUMNS, row_bucket(columns))
    smaller = size * 3 // 4
    return smaller if smaller >= columns and smaller % _FEWEST_COLUMNS == 0 else size
