"""Removal of old segments by the brokers' own retention while groups are behind, noted in the ledger."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from random import Random
from unittest import mock

from attrs import evolve

from logd.log.partition import PartitionLog
from logd.protocol.loops import decode_set
from logd.testing.memory.broker import MemoryBroker
from logd.testing.memory.files import MemoryFiles
from tests.simulation.ledger import BOMB, Ledger


def payloads_of(broker: MemoryBroker, log: PartitionLog, below: int | None = None) -> list[bytes]:
    """Return the payloads in a log's files, in order; with ``below``, of segments that begin before it."""
    return payloads_in(broker.files, log.folder, below)


def payloads_in(files: MemoryFiles, folder: str, below: int | None = None) -> list[bytes]:
    """See ``payloads_of``; [] for a missing folder. Bombs are left out: the ledger does not know them."""
    payloads: list[bytes] = []
    for name in sorted(files.list(folder)) if files.exists(folder) else ():
        if name.endswith(".log") and (below is None or int(name.removesuffix(".log")) < below):
            file = files.open_for_reading(f"{folder}/{name}")
            decoded = decode_set(file.read_at(0, file.size()), 0)
            file.close()
            found = [message.payload for message in decoded.messages if message.payload is not None]
            payloads += [payload for payload in found if not payload.startswith(BOMB)]
    return payloads


def removable(broker: MemoryBroker, ledger: Ledger) -> list[PartitionLog]:
    """Return the logs with segments to remove; only those where a group is behind, if there are any."""
    logs = [] if broker.store is None else [log for log in broker.store.logs() if len(log.segments()) > 1]
    behind = [
        log
        for log in logs
        for places in ledger.groups.values()
        if (progress := places.get((log.topic, log.partition))) is not None
        and 0 < progress.committed <= progress.handled < log.segments()[-1][0]
    ]
    return behind or logs


def remove_segments(broker: MemoryBroker, log: PartitionLog, random: Random) -> None:
    """Let retention by size remove some of a log's segments."""
    assert broker.store is not None
    settings = log.settings
    log.settings = evolve(settings, retention_bytes=random.choice([0, 300, 1000]))
    try:
        expired = log.expire()
    finally:
        log.settings = settings
    if expired:
        broker.store.upkeep.look_after([log])


@contextmanager
def told_of_retention(brokers: Sequence[MemoryBroker], ledger: Ledger) -> Iterator[None]:
    """Note in the ledger all that retention removes, by size or by time."""
    expire = PartitionLog.expire

    def told(log: PartitionLog) -> int:
        expired = expire(log)
        if expired:
            broker = next(each for each in brokers if each.store is not None and log in each.store.logs())
            everything = payloads_of(broker, log)
            removed = payloads_of(broker, log, log.start)
            ledger.remove(log.topic, log.partition, log.start, removed, everything[len(removed) :])
        return expired

    with mock.patch.object(PartitionLog, "expire", told):
        yield
