"""The loops over the entries of a message set, in the implementation that LOGD_LOOPS names.

Only this module chooses the implementation. So all callers import the module (``from logd.protocol import loops``), and
none of its functions by name. ``python`` is the only implementation so far, and the default.
"""

from __future__ import annotations

from os import environ

from logd.protocol.loops.batches import OpenBatch, Records
from logd.protocol.loops.results import BatchColumns, Checked, Columns, Decoded, OpenEntry, Scanned

__all__ = [
    "IMPLEMENTATION",
    "BatchColumns",
    "Checked",
    "Columns",
    "Decoded",
    "OpenBatch",
    "OpenEntry",
    "Records",
    "Scanned",
    "check_set",
    "columns_of_batches",
    "columns_of_set",
    "decode_set",
    "encode_records",
    "encode_set",
    "ends_of_set",
    "heads_of_set",
    "scan_set",
    "slice_end",
]

#: The name of the implementation in use.
IMPLEMENTATION = environ.get("LOGD_LOOPS") or "python"

if IMPLEMENTATION == "python":
    from logd.protocol.loops.python import (
        check_set,
        columns_of_batches,
        columns_of_set,
        decode_set,
        encode_records,
        encode_set,
        ends_of_set,
        heads_of_set,
        scan_set,
        slice_end,
    )
else:
    raise ImportError(f"LOGD_LOOPS is {IMPLEMENTATION!r}: the loops over messages are implemented in python alone")
