"""The registry of Kafka 0.7 in the coordination tree, below a node of its own.

    NODE/brokers/ids/<broker>               ephemeral: creator:host:port
    NODE/brokers/topics/<topic>/<broker>    ephemeral: the number of partitions that this broker has, as decimal text

Consumers of 0.7 keep their groups below NODE/consumers, and nobody else looks there. Topics of other formats than 0.7
are not registered: they may have messages that stop such clients. Nor are those with several replicas: see ``numbers``.
"""

from __future__ import annotations

from collections.abc import Callable

from attrs import define, field
from twisted.internet.defer import Deferred, DeferredList
from twisted.logger import Logger
from twisted.python.failure import Failure

from logd.coord.errors import CoordinationError
from logd.coord.interfaces import ICoordination
from logd.coord.kept_ephemeral import KeptEphemeral
from logd.interfaces import Clock

#: Seconds between two looks at the topics.
LOOK_SECONDS = 1.0
#: Seconds that a stopping broker waits for the tree to remove its nodes.
LEAVE_SECONDS = 2.0


@define(eq=False)
class LegacyRegistry:
    """Keeps the nodes of one broker while it runs."""

    _log = Logger()

    _tree: ICoordination
    _clock: Clock
    _node: str
    _broker_id: int
    #: The address that clients are told.
    _address: tuple[str, int]
    #: Returns the number of this broker's partitions of each topic that is registered.
    _counts: Callable[[], dict[str, int]]
    _kept: dict[str, KeptEphemeral] = field(factory=dict, init=False)
    _values: dict[str, bytes] = field(factory=dict, init=False)
    _stopped: bool = field(default=False, init=False)

    def look(self) -> None:
        """Register the broker, and what has changed of its topics. Call it now and then."""
        if self._stopped:
            return
        host, port = self._address
        wanted = {f"{self._node}/brokers/ids/{self._broker_id}": f"{host}-logd:{host}:{port}".encode()}
        for topic, count in self._counts().items():
            wanted[f"{self._node}/brokers/topics/{topic}/{self._broker_id}"] = b"%d" % count
        for path in [each for each in self._kept if each not in wanted]:
            del self._values[path]
            self._kept.pop(path).stop()
        for path, value in wanted.items():
            kept = self._kept.get(path)
            if kept is None:
                self._keep(path, value)
            elif self._values[path] != value:
                kept.update(value).addErrback(lambda failure: failure.trap(CoordinationError))
                self._values[path] = value

    async def stop(self) -> None:
        """Remove the nodes. Never fails."""
        self._stopped = True
        stopping: list[Deferred[None]] = [each.stop(LEAVE_SECONDS) for each in self._kept.values()]
        self._kept.clear()
        await DeferredList(stopping, consumeErrors=True)

    def _keep(self, path: str, value: bytes) -> None:
        # A node with any value under this broker's number is left from its former life.
        kept = KeptEphemeral(self._clock, self._tree, path, value, same=lambda _: True, failed=self._failed)
        self._kept[path], self._values[path] = kept, value

        def failed(failure: Failure) -> None:
            if self._kept.get(path) is kept:  # the next look tries again
                del self._kept[path], self._values[path]
            if not self._stopped:
                self._failed(failure)

        kept.start().addErrback(failed)

    def _failed(self, failure: Failure) -> None:
        if failure.check(CoordinationError):
            self._log.debug("the registry of 0.7 waits for the tree: {error}", error=failure.getErrorMessage())
        else:
            self._log.failure("the registry of 0.7", failure)
