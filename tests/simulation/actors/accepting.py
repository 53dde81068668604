"""Losses for good: an operator accepts that a log is lost, or lets a repair replace a segment by gaps."""

from __future__ import annotations

from random import Random

from attrs import define, field
from twisted.internet.defer import Deferred
from twisted.internet.task import deferLater
from twisted.python.failure import Failure

from logd.client.admin.admin import Admin
from logd.errors import LogdError
from logd.log.damage.folder_repair import repair_folder
from logd.log.disk.names import kept_entry_name
from logd.log.partition import PartitionLog
from logd.log.recovery.flush_mark import read_mark
from logd.protocol.checksums import crc32
from logd.protocol.entry import GAP, LENGTH_BYTES, MAGIC_AT, WRAPPER, WRAPPER_HEAD, WRAPPER_HEAD_BYTES
from logd.protocol.loops import decode_set
from logd.protocol.requests.repair import LOST_LOG
from logd.testing.memory.broker import MemoryBroker
from logd.testing.memory.clocks import ProcessClock
from logd.testing.memory.files import MemoryFiles
from tests.simulation.ledger import BOMB, Ledger, Place
from tests.simulation.retention import payloads_in
from tests.simulation.violation import Violation, check
from tests.simulation.world import World

#: A log whose loss was accepted begins at a multiple of this.
JUMP = 1 << 40


@define(eq=False)
class Accepting:
    """An operator who runs `logd repair --broker --accept-loss` for each partition of a broker with a new disk."""

    world: World
    ledger: Ledger
    host: str = "acceptor"
    random: Random = field(init=False)
    #: Acceptances that have begun and not ended yet.
    under_way: int = field(default=0, init=False)
    accepted: int = field(default=0, init=False)

    def __attrs_post_init__(self) -> None:
        self.random = self.world.random(self.host)

    def accept(self, broker: MemoryBroker, lost: MemoryFiles, folders: dict[Place, str]) -> None:
        """Accept the loss of ``folders`` on ``lost``, the former disk of ``broker``."""
        self.under_way += 1
        clock = ProcessClock(self.world.clock)
        doing = Deferred.fromCoroutine(self._accept(clock, broker, lost, folders))
        doing.addErrback(self._failed)
        self.world.network.graveyard.append((clock, doing))

    async def _accept(
        self, clock: ProcessClock, broker: MemoryBroker, lost: MemoryFiles, folders: dict[Place, str]
    ) -> None:
        connect = self.world.network.connector(self.host, clock, timeout=3.0)
        admin = Admin([broker.address], reactor=clock, connect=connect, request_timeout=4.0)
        for place, folder in sorted(folders.items()):
            while not await self._accept_one(admin, place, payloads_in(lost, folder)):
                await deferLater(clock, 0.5 + self.random.random())
        await admin.close()
        self.under_way -= 1

    async def _accept_one(self, admin: Admin, place: Place, payloads: list[bytes]) -> bool:
        """Try to accept the loss of one log; return True once it is served."""
        try:
            accept_at = None
            async for answer in admin.repair_log(*place):
                for damage in answer.described:
                    if damage.kind == LOST_LOG:
                        accept_at = damage.position + damage.bytes
            if accept_at is None:
                return place in self.ledger.begun_again
            check(accept_at % JUMP == 0, "a log would not begin at a multiple of 2^40", place, accept_at)
            is_first = place not in self.ledger.begun_again
            self.ledger.begun_again.add(place)
            # A crash may undo a beginning that the tree has noted: the next one is further on.
            self.ledger.remove(*place, accept_at, payloads if is_first else [], [])
            self.accepted += is_first
            async for _ in admin.repair_log(*place, dry_run=False, accept_at=accept_at):
                pass
        except LogdError as error:
            self.world.trace.note(self.host, "tries again", f"{place} {error}")
        return False

    def _failed(self, failure: Failure) -> None:
        raise Violation(f"{self.host}: {failure.value!r}") from failure.value


def make_gaps(broker: MemoryBroker, log: PartitionLog, number: int, ledger: Ledger) -> None:
    """Remove segment ``number`` of a broker that does not run, and let a repair make gaps in its place."""
    starts = [each[0] for each in log.segments()]
    start, end = starts[number], starts[number + 1]
    everything = payloads_in(broker.files, log.folder)
    before = payloads_in(broker.files, log.folder, start)
    lost = payloads_in(broker.files, log.folder, end)[len(before) :]
    broker.files.remove(f"{log.folder}/{start:020}.log")
    broker.files.sync_directory(log.folder)
    ledger.replace(log.topic, log.partition, start, end, lost, before + everything[len(before) + len(lost) :])
    found = repair_folder(broker.files, log.folder, dry_run=False, cut=False)
    check(found.is_sound, "a repair leaves damage", log.folder, found.damages)


def seal_entry(broker: MemoryBroker, log: PartitionLog, random: Random, ledger: Ledger) -> None:
    """Make a wrapper that no codec opens of an entry of a broker that does not run, and have it repaired to a gap.

    Its checksum matches, so the repair has to keep its bytes in a file before it overwrites them.
    """
    start = random.choice([each[0] for each in log.segments()])
    inode = broker.files._inode(f"{log.folder}/{start:020}.log")
    known = read_mark(broker.files, log.folder) - start  # a repair leaves alone what may never have been flushed
    entries = [(at, each) for at, each in _entries_of(bytes(inode.data)) if at + len(each) <= known and _has_room(each)]
    if not entries:
        return
    at, entry = random.choice(entries)
    payloads = [each.payload for each in decode_set(entry, 0).messages if each.payload is not None]
    payloads = [payload for payload in payloads if not payload.startswith(BOMB)]
    everything = payloads_in(broker.files, log.folder)
    left = list(everything)
    for payload in payloads:
        left.remove(payload)
    sealed = b"sealed"[: len(entry) - WRAPPER_HEAD_BYTES].ljust(len(entry) - WRAPPER_HEAD_BYTES, b"x")
    inode.data[at : at + len(entry)] = WRAPPER_HEAD.pack(len(entry) - LENGTH_BYTES, WRAPPER, 1, crc32(sealed)) + sealed
    inode.sync()
    ledger.replace(log.topic, log.partition, start + at, start + at + len(entry), payloads, left)
    kept = f"{log.folder}/{kept_entry_name(start + at)}"
    found = repair_folder(broker.files, log.folder, dry_run=False, cut=False)
    check(found.is_sound, "a repair leaves damage", log.folder, found.damages)
    check(broker.files.exists(kept), "a repair overwrites an entry whose checksum matches", log.folder, start + at)


def _entries_of(data: bytes) -> list[tuple[int, bytes]]:
    """Return the entries of a segment, each with its place in the file."""
    entries, at = [], 0
    while at < len(data):
        end = at + LENGTH_BYTES + int.from_bytes(data[at : at + LENGTH_BYTES], "big")
        entries.append((at, data[at:end]))
        at = end
    return entries


def _has_room(entry: bytes) -> bool:
    """Return whether an entry can become a wrapper of the same size."""
    return len(entry) > WRAPPER_HEAD_BYTES and entry[MAGIC_AT] != GAP
