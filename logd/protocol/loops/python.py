"""The loops over the entries of a message set, in Python."""

from __future__ import annotations

from logd.protocol.loops.batch_runs import find_batches, wire_of_run
from logd.protocol.loops.batches import encode_payload_records, encode_records
from logd.protocol.loops.checking import check_set
from logd.protocol.loops.columns import columns_of_set
from logd.protocol.loops.decoding import decode_set
from logd.protocol.loops.encoding import encode_payload_frames, encode_payloads, encode_set
from logd.protocol.loops.frames import join_frames
from logd.protocol.loops.lengths import ends_of_set, heads_of_set, slice_end
from logd.protocol.loops.record_sets import records_of_set
from logd.protocol.loops.scanning import scan_set
from logd.protocol.loops.summaries import payload_sizes, summarize_messages

__all__ = [
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
