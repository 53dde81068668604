"""The types of the extension in _compiled.c, which is there only where it could be built."""

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence

from logd.protocol.checksums import Checksums
from logd.protocol.entry import Buffer
from logd.protocol.loops.batch_runs import BatchRun
from logd.protocol.loops.batches import Records
from logd.protocol.loops.openbatch import OpenBatch
from logd.protocol.loops.record_sets import MadeRecords
from logd.protocol.loops.results import Checked, Columns, Decoded, JoinedFrames, MessageSummary, OpenEntry, Scanned
from logd.protocol.message import Message

#: The CRC-32 of the source that the extension was built from.
SOURCE_CRC: int
#: ``instructions`` of the processor, or ``tables``.
CHECKSUMS_BY: str

def check_set(data: Buffer, max_message_bytes: int, max_batch_bytes: int = ..., legacy: bool = ...) -> Checked: ...
def columns_of_set(
    data: bytes,
    position: int = 0,
    *,
    begin: int = 0,
    limit: int = sys.maxsize,
    limit_bytes: int = ...,
    max_decompressed: int = ...,
    max_decompressed_messages: int = ...,
    opened: OpenBatch | None = None,
    include_values: bool = True,
) -> Columns: ...
def decode_set(
    data: bytes,
    position: int = 0,
    *,
    begin: int = 0,
    start_at: int = -1,
    topic: str | None = None,
    partition: int = -1,
    limit: int = sys.maxsize,
    limit_bytes: int = ...,
    max_decompressed: int = ...,
    max_decompressed_messages: int = ...,
    opened: OpenEntry | None = None,
) -> Decoded: ...
def encode_payload_frames(head: bytes, payloads: Sequence[bytes]) -> bytes: ...
def encode_payload_records(payloads: Sequence[bytes]) -> Records: ...
def encode_payloads(payloads: Sequence[bytes]) -> bytes: ...
def encode_records(messages: Sequence[Message]) -> Records: ...
def encode_set(messages: Iterable[Message]) -> bytes: ...
def ends_of_set(data: Buffer, begin: int = 0) -> list[int]: ...
def find_batches(
    data: Buffer,
    begin: int = 0,
    *,
    most_bytes: int = sys.maxsize,
    largest: int = sys.maxsize,
    codecs: int = ...,
    verify: bool = False,
) -> BatchRun: ...
def heads_of_set(data: Buffer, begin: int = 0) -> list[tuple[int, int, int]]: ...
def join_frames(data: Buffer, begin: int, head_bytes: int, frame_bytes: int, most: int) -> JoinedFrames | None: ...
def payload_sizes(messages: Sequence[Message]) -> tuple[int, int] | None: ...
def records_of_set(
    data: bytes,
    position: int,
    base_offset: int,
    *,
    begin: int = 0,
    until: int = sys.maxsize,
    limit: int = sys.maxsize,
) -> MadeRecords: ...
def scan_set(
    data: Buffer,
    begin: int = 0,
    until: int = sys.maxsize,
    *,
    newest: int = -1,
    next_boundary: int = sys.maxsize,
    boundary_bytes: int = sys.maxsize,
    checksums: Checksums = ...,
    readable: Callable[[Buffer, int, int], str] | None = None,
) -> Scanned: ...
def wire_of_run(data: bytes, position: int) -> bytes: ...
def slice_end(data: Buffer, at: int, most_entries: int, most_bytes: int) -> int: ...
def summarize_messages(messages: Sequence[Message]) -> MessageSummary: ...
def crc32(data: bytes | memoryview, crc: int = 0, /) -> int: ...
def crc32c(data: bytes | memoryview, crc: int = 0, /) -> int: ...
def crc32_by_tables(data: bytes | memoryview, crc: int = 0, /) -> int: ...
def crc32c_by_tables(data: bytes | memoryview, crc: int = 0, /) -> int: ...
def set_up(parts: Mapping[str, object], /) -> None: ...
