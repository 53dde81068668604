"""A check of every append: the data directory has the format for batches, durably, before it holds one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from unittest import mock

from logd.log.disk.names import META, META_COPY, join
from logd.log.partition import PartitionLog
from logd.log.store.meta import BATCH_FORMAT, Meta
from logd.protocol.batch_layout import BATCH
from logd.protocol.entry import LENGTH_BYTES, MAGIC_AT
from logd.testing.memory.files import MemoryFiles
from tests.simulation.violation import Violation


@contextmanager
def formats_watched() -> Iterator[None]:
    """Raise Violation in an append of a batch while a loss of power could leave the former format."""
    append = PartitionLog.append

    def watched(log: PartitionLog, sets: Sequence[bytes], messages: int, newest_timestamp: int) -> int:
        if any(map(_has_batches, sets)):
            files = log._context.files
            assert isinstance(files, MemoryFiles)
            folder = log.folder.rpartition("/")[0]
            for name in (META, META_COPY):
                content = files.durable(join(folder, name))
                if content is None or _format_in(content) < BATCH_FORMAT:
                    raise Violation("a batch is appended before the format is durable", join(folder, name), content)
        return append(log, sets, messages, newest_timestamp)

    with mock.patch.object(PartitionLog, "append", watched):
        yield


def _format_in(content: bytes) -> int:
    """Return the format in a file's content; that for batches if it is damaged, as it is healed from the other one."""
    try:
        return Meta.decode(content).format
    except ValueError:
        return BATCH_FORMAT


def _has_batches(message_set: bytes) -> bool:
    at = 0
    while at < len(message_set):
        if message_set[at + MAGIC_AT] == BATCH:
            return True
        at += LENGTH_BYTES + int.from_bytes(message_set[at : at + LENGTH_BYTES], "big")
    return False
