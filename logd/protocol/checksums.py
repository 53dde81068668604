"""CRC-32 twice: zlib's for every message on the way, and crcmod's as the independent second opinion."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast
from zlib import crc32

import crcmod.predefined

__all__ = ["crc32", "independent_crc32"]

#: The same polynomial from other hands, for offline verification: five times slower per message than zlib's.
independent_crc32 = cast("Callable[[bytes], int]", crcmod.predefined.mkPredefinedCrcFun("crc-32"))
