"""The loops over the entries of a message set, in the implementation that logd.protocol.implementation has chosen.

All callers import this module (``from logd.protocol import loops``), and none of its functions by name: so they have
the chosen implementation, and tests can replace it.
"""

from __future__ import annotations

from logd.protocol.flat_columns import BinaryColumn
from logd.protocol.implementation import IMPLEMENTATION
from logd.protocol.loops.batch_runs import ALL_CODECS, BatchRun
from logd.protocol.loops.batches import Records
from logd.protocol.loops.openbatch import OpenBatch
from logd.protocol.loops.record_sets import MadeRecords
from logd.protocol.loops.results import Checked, Columns, Decoded, JoinedFrames, MessageSummary, OpenEntry, Scanned

__all__ = [
    "ALL_CODECS",
    "IMPLEMENTATION",
    "BatchRun",
    "BinaryColumn",
    "Checked",
    "Columns",
    "Decoded",
    "JoinedFrames",
    "MadeRecords",
    "MessageSummary",
    "OpenBatch",
    "OpenEntry",
    "Records",
    "Scanned",
    "check_set",
    "columns_of_set",
    "decode_set",
    "encode_payload_frames",
    "encode_payload_records",
    "encode_payloads",
    "encode_records",
    "encode_set",
    "ends_of_set",
    "find_batches",
    "heads_of_set",
    "join_frames",
    "payload_sizes",
    "records_of_set",
    "scan_set",
    "slice_end",
    "summarize_messages",
    "wire_of_run",
]

if IMPLEMENTATION == "compiled":
    from logd.protocol.loops.compiled import (
        check_set,
        columns_of_set,
        decode_set,
        encode_payload_frames,
        encode_payload_records,
        encode_payloads,
        encode_records,
        encode_set,
        ends_of_set,
        find_batches,
        heads_of_set,
        join_frames,
        payload_sizes,
        records_of_set,
        scan_set,
        slice_end,
        summarize_messages,
        wire_of_run,
    )
else:
    from logd.protocol.loops.python import (
        check_set,
        columns_of_set,
        decode_set,
        encode_payload_frames,
        encode_payload_records,
        encode_payloads,
        encode_records,
        encode_set,
        ends_of_set,
        find_batches,
        heads_of_set,
        join_frames,
        payload_sizes,
        records_of_set,
        scan_set,
        slice_end,
        summarize_messages,
        wire_of_run,
    )
