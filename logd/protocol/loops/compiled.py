"""The loops over the entries of a message set, compiled, with those in Python for all that is not common.

Importing this module fails with an ImportError where the extension was not built.
"""

from __future__ import annotations

from logd.config.log import DEFAULT_BATCH_BYTES
from logd.errors import CorruptMessage, WrapperTooLarge
from logd.protocol import _compiled
from logd.protocol._compiled import (
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
from logd.protocol.checksums import CHECKSUMS
from logd.protocol.flat_columns import BinaryColumn
from logd.protocol.loops import python
from logd.protocol.loops.batch_runs import BatchRun
from logd.protocol.loops.batches import Records
from logd.protocol.loops.decoding import decode_rest
from logd.protocol.loops.openbatch import OpenBatch, open_batch
from logd.protocol.loops.record_sets import MadeRecords
from logd.protocol.loops.results import Checked, Columns, Decoded, JoinedFrames, MessageSummary, Scanned
from logd.protocol.message import Message
from logd.protocol.wrapper import DEFAULT_MAX_DECOMPRESSED, DEFAULT_MAX_DECOMPRESSED_MESSAGES, may_be_produced

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

_compiled.set_up(
    {
        "Message": Message,
        "Checked": Checked,
        "Scanned": Scanned,
        "Decoded": Decoded,
        "JoinedFrames": JoinedFrames,
        "Columns": Columns,
        "BinaryColumn": BinaryColumn,
        "Records": Records,
        "BatchRun": BatchRun,
        "MadeRecords": MadeRecords,
        "OpenBatch": OpenBatch,
        "MessageSummary": MessageSummary,
        "CorruptMessage": CorruptMessage,
        "WrapperTooLarge": WrapperTooLarge,
        "CHECKSUMS": CHECKSUMS,
        "DEFAULT_BATCH_BYTES": DEFAULT_BATCH_BYTES,
        "DEFAULT_MAX_DECOMPRESSED": DEFAULT_MAX_DECOMPRESSED,
        "DEFAULT_MAX_DECOMPRESSED_MESSAGES": DEFAULT_MAX_DECOMPRESSED_MESSAGES,
        "may_be_wrapper": may_be_produced,
        "open_batch": open_batch,
        "decode_rest": decode_rest,
    }
    | {name: getattr(python, name) for name in python.__all__}
)
