"""The gate in front of a mirror's sends: sets wait there until the schemas that they name are copied."""

from __future__ import annotations

from collections.abc import Callable

from attrs import define, field
from twisted.internet.defer import CancelledError, Deferred
from twisted.python.failure import Failure

from logd.backoff import Backoff
from logd.deferreds.background import Background
from logd.deferreds.locking import QueueLock
from logd.deferreds.sleeping import sleep
from logd.deferreds.waiting import WaitingDeferreds
from logd.errors import LogdError
from logd.interfaces import Clock
from logd.mirror.schemas.schema_copier import SchemaCopier
from logd.topic import TopicPartition

#: Seconds before a schema that could not be copied is tried again: the first time, and at most.
FIRST_WAIT, LONGEST_WAIT = 0.2, 5.0


@define(eq=False)
class SchemaGate:
    """Copies each schema once, before the first set that names it. For the reactor's thread.

    While a registry is away, or the target's has given an id to another schema, the sets that name it wait, and those
    behind them in their partitions.
    """

    clock: Clock
    copier: SchemaCopier
    random: Callable[[], float]
    _copied: set[int] = field(factory=set, init=False)
    #: Those who wait, by id.
    _asked: dict[int, WaitingDeferreds[None]] = field(factory=dict, init=False)
    #: The reasons why schemas are not copied, and the id that each partition waits for.
    _troubles: dict[int, str] = field(factory=dict, init=False)
    _waiting: dict[TopicPartition, int] = field(factory=dict, init=False)
    #: One schema at a time, so that subjects with several new ones are copied once.
    _lock: QueueLock = field(factory=QueueLock, init=False)
    _background: Background = field(factory=lambda: Background("the copies of schemas"), init=False)

    def wait(self, where: TopicPartition, named: set[int]) -> Deferred[None] | None:
        """Return a Deferred that fires once a set of ``where`` may be sent that names these schemas, by their ids.

        None if it may at once. Cancellable.
        """
        wanted = named - self._copied
        return Deferred.fromCoroutine(self._wait(where, wanted)) if wanted else None

    def trouble(self, where: TopicPartition) -> Exception | None:
        """Return the reason why a partition waits, if a schema could not be copied."""
        text = self._troubles.get(self._waiting.get(where, 0))
        return LogdError(text) if text else None

    async def close(self) -> None:
        """Copy nothing more."""
        self._background.stop()
        await self.copier.close()

    async def _wait(self, where: TopicPartition, wanted: set[int]) -> None:
        """Wait for one schema after the other, since no two are copied at a time.

        A set of payloads of another kind may name a hundred thousand, and other partitions have their turns in between.
        """
        for each in sorted(wanted):
            if each in self._copied:  # meanwhile
                continue
            self._waiting[where] = each
            try:
                await self._wanted(each)
            finally:
                self._waiting.pop(where, None)

    def _wanted(self, schema_id: int) -> Deferred[None]:
        waiting = self._asked.get(schema_id)
        if waiting is not None:
            return waiting.new()
        waiting = self._asked[schema_id] = WaitingDeferreds()
        found = waiting.new()
        self._background.start(self._copy(schema_id, waiting))
        return found

    async def _copy(self, schema_id: int, waiting: WaitingDeferreds[None]) -> None:
        """Copy a schema, however long that takes, as long as somebody waits for it."""
        backoff = Backoff(FIRST_WAIT, LONGEST_WAIT, self.random)
        bug: Failure | None = None
        try:
            while len(waiting):
                await self._lock.acquire()
                try:
                    if await self.copier.copy(schema_id):
                        self._copied.add(schema_id)
                    break
                except LogdError as error:
                    self._troubles[schema_id] = str(error)
                finally:
                    self._lock.release()
                await sleep(self.clock, backoff.next())
        except CancelledError:
            return
        except Exception:
            bug = Failure()
        finally:
            self._troubles.pop(schema_id, None)
            self._asked.pop(schema_id, None)
        if bug is None:
            waiting.fire(None)
        else:  # whoever waits begins again, perhaps at once, and it is logged
            waiting.fail(bug)
            bug.raiseException()
