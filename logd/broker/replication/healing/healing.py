"""The verification of all logs here, and the healing of those that are replicated, as one part of a broker."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from attrs import define, field
from twisted.internet.defer import Deferred
from twisted.logger import Logger

from logd.broker.replication.replica_manager import ReplicaManager
from logd.broker.verification.damaged_segments import DamagedSegments
from logd.broker.verification.verifier import LogVerifier
from logd.deferreds.background import Background
from logd.deferreds.sleeping import sleep
from logd.deferreds.threads import on_thread
from logd.errors import CorruptMessage, LogdError
from logd.log.partition import PartitionLog
from logd.protocol.requests.replicas.replica_read import ReplicaRead, ReplicaReadResponse, ReplicaReadV1

if TYPE_CHECKING:
    from logd.broker.replication.healing.healer import Healer

#: Seconds for which a reader on a leader waits until damage is healed, and between two looks.
HEALING_SECONDS = 10.0
POLL_SECONDS = 0.05
#: Segments that are remembered as sound.
MOST_SOUND = 1000


class HealingCounts(NamedTuple):
    """Segments that were healed, bytes that were taken from other replicas for that, and attempts that failed."""

    healed: int = 0
    healed_bytes: int = 0
    failures: int = 0


@define(eq=False)
class Healing:
    """The verifier, the healer, and the answers to others that heal. Owner thread only, but for the figures.

    What only damage needs is imported once there is some: most brokers never meet it.
    """

    _log = Logger()

    _manager: ReplicaManager
    verifier: LogVerifier
    _wall: Callable[[], float]
    _random: Callable[[], float]
    _healer: Healer | None = field(default=None, init=False)
    _suspects: Background = field(factory=lambda: Background("looking at suspect entries"), init=False)
    _looked_at: set[PartitionLog] = field(factory=set, init=False)
    #: Segments that readers took for damaged, and that are not: an entry is unreadable as it was sent.
    _sound: set[tuple[PartitionLog, int]] = field(factory=set, init=False)
    _suspected: set[tuple[PartitionLog, int]] = field(factory=set, init=False)

    def __attrs_post_init__(self) -> None:
        self.verifier.on_found = self._found
        self._manager.on_repeated = self.look_at

    @property
    def healer(self) -> Healer:
        """The healer, made when it is first asked for."""
        if self._healer is None:
            from logd.broker.replication.healing.healer import Healer

            self._healer = Healer(self._manager, self.verifier, self._wall, self._random)
        return self._healer

    @property
    def counts(self) -> HealingCounts:
        """The counts of what was healed so far. May be asked on any thread."""
        healer = self._healer
        return HealingCounts() if healer is None else HealingCounts(healer.healed, healer.healed_bytes, healer.failures)

    def read(self, request: ReplicaRead | ReplicaReadV1) -> Deferred[ReplicaReadResponse]:
        """Answer another replica that heals its log with bytes of here."""
        from logd.broker.replication.healing.read_requests import ReplicaReads

        return ReplicaReads(self._manager, self.suspect).answer(request)

    @property
    def damaged(self) -> DamagedSegments:
        """The damaged segments of all logs here."""
        return self.verifier.damaged

    def start(self) -> None:
        """Begin to verify."""
        self.verifier.start()

    def stop(self) -> None:
        """Verify and heal no more."""
        self.verifier.stop()
        if self._healer is not None:
            self._healer.stop()
        self._suspects.stop()

    def suspect(self, log: PartitionLog, position: int) -> None:
        """Verify the segment with an entry that a reader has found to be damaged, at once."""
        number = log.segment_list.find(position)
        key = (log, log.segment_list.starts[max(number, 0)])
        if key not in self._suspected:
            self._suspected.add(key)
            self._suspects.start(self._verify(*key))

    def look_at(self, log: PartitionLog, position: int, count: int) -> None:
        """Read the bytes that a follower may have refused, and verify their segment if they are damaged."""
        end = min(position + count, log.visible_end)
        if position < end and log.offline is None and log not in self._looked_at:
            self._looked_at.add(log)
            self._suspects.start(self._look_at(log, position, end))

    async def _look_at(self, log: PartitionLog, position: int, end: int) -> None:
        from logd.log.damage.verified_read import read_verified

        snapshot = log.snapshot(log.visible_end)
        try:
            while position < end:
                at = position
                position += len(await on_thread(self._manager.threads, lambda: read_verified(snapshot, at, end - at)))  # noqa: B023
        except CorruptMessage:
            self.suspect(log, position)
        except (LogdError, OSError):
            pass  # removed meanwhile, or for the next verification
        finally:
            self._looked_at.discard(log)

    def may_heal(self, log: PartitionLog, position: int) -> bool:
        """Return whether a reader of damage should come again, as it is being healed; looks for it if it is not known.

        False where no replica has given the bytes so far, and for an entry that cannot be read in a sound segment.
        """
        if log.replica is None or log.offline is not None:
            return False
        start = log.segment_list.starts[max(log.segment_list.find(position), 0)]
        known = self.damaged.get((log.topic, log.partition, start))
        if known is not None:
            return not known.trouble
        if (log, start) in self._sound:
            return False
        self.suspect(log, position)
        return True

    def is_damaged(self, log: PartitionLog, position: int) -> bool:
        """Return whether the segment with a position is known to be damaged."""
        start = log.segment_list.starts[max(log.segment_list.find(position), 0)]
        return self.damaged.get((log.topic, log.partition, start)) is not None

    async def _verify(self, log: PartitionLog, start: int) -> None:
        try:
            if await self.verifier.check(log, start) == []:
                if len(self._sound) >= MOST_SOUND:
                    self._sound.clear()
                self._sound.add((log, start))
        finally:
            self._suspected.discard((log, start))

    async def heal(self, log: PartitionLog, position: int) -> bool:
        """Verify the segment that a reader on a leader cannot read; return whether it is worth to read again.

        It is once it is healed; not where nobody has the bytes within HEALING_SECONDS.
        """
        start = log.segment_list.starts[max(log.segment_list.find(position), 0)]
        await self.verifier.check(log, start)
        if log.replica is None or self.damaged.get((log.topic, log.partition, start)) is None:
            return False
        return await self._is_healed(log, start)

    async def repair(self, log: PartitionLog, start: int) -> None:
        """Heal a damaged segment at a person's word; where no replica has the bytes, make gaps.

        Raises LogdError or OSError, with the reason for which that is refused or fails.
        """
        self.healer.heal(log, start)
        if not await self._is_healed(log, start):
            from logd.broker.replication.healing.gaps import ReplicatedGaps

            await ReplicatedGaps(self._manager, self.verifier, self.healer).make(log, start)

    async def _is_healed(self, log: PartitionLog, start: int) -> bool:
        """Wait until a segment is healed, for HEALING_SECONDS; return whether it is."""
        key = (log.topic, log.partition, start)
        clock = self.verifier.clock
        until = clock.seconds() + HEALING_SECONDS
        while self.damaged.get(key) is not None and clock.seconds() < until:
            await sleep(clock, POLL_SECONDS)
        return self.damaged.get(key) is None

    def _found(self, log: PartitionLog, start: int) -> None:
        """Say what was found, and have it healed if other replicas may have the bytes."""
        known = self.damaged.get((log.topic, log.partition, start))
        if known is None:
            return
        if log.replica is not None:
            self._log.error("{folder} is damaged: {what}", folder=log.folder, what=known.text)
            self.healer.heal(log, start)
        else:
            known.healing = (
                f"no other broker has it: put the segment back from a backup, or let readers pass over the damage "
                f"(`logd repair --broker HOST:PORT {log.topic} {log.partition}`)"
            )
            self._log.error(
                "{folder} is damaged: {what}; {remedy}", folder=log.folder, what=known.text, remedy=known.healing
            )
