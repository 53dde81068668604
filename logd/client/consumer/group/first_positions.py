"""The first positions of a new group's partitions, which are stored before anything of them is handed over."""

from __future__ import annotations

from collections.abc import Callable

from twisted.internet.defer import Deferred
from twisted.logger import Logger

from logd.client.cluster.cluster import Cluster
from logd.client.cluster.position_lookup import locate_start
from logd.client.consumer.fetching.partition_fetch import PartitionFetch
from logd.client.consumer.group.group_stream_state import GroupStreamState
from logd.clientcore.answers import is_final
from logd.coord.errors import CoordinationError
from logd.deferreds.background import Background
from logd.deferreds.sleeping import sleep
from logd.deferreds.waiting import WaitingDeferreds
from logd.errors import BrokerUnavailable, ClientClosed, PartitionLost, WireError
from logd.topic import TopicPartition


class FirstPositions:
    """The searches for first positions, and the commits that store them.

    There is one commit at a time, for all positions that are known when it begins: each looks at all partitions, so
    that one commit for each of them would take a time that grows with their square.
    """

    _log = Logger()

    def __init__(self, cluster: Cluster, commit: Callable[[], Deferred[None]]) -> None:
        """``commit`` stores the positions of the partitions that their streams expect."""
        self._cluster = cluster
        self._commit = commit
        self._background = Background("the first positions of a group")
        #: The number of the tenure; work that was begun in an earlier one is void.
        self._tenure = 0
        self._waiting: WaitingDeferreds[None] = WaitingDeferreds()
        self._storing = False

    def find(self, stream: GroupStreamState, fetch: PartitionFetch) -> None:
        """Give a partition to its stream once its first position is stored.

        Otherwise a kill before the first commit would move the start to a later end of the log, and the messages in
        between would be skipped. After an error that trying again does not cure, the stream fails with it.
        """
        self._background.start(self._find(stream, fetch))

    def void(self) -> None:
        """Give up the positions that are not stored yet: partitions are given or taken away."""
        self._tenure += 1

    def stop(self) -> None:
        """Stop all work."""
        self._background.stop()

    async def _find(self, stream: GroupStreamState, fetch: PartitionFetch) -> None:
        tenure = self._tenure
        backoff = self._cluster.backoff()
        while tenure == self._tenure:
            try:
                if fetch.start is not None:
                    uuid = fetch.identity.uuid
                    position = await locate_start(self._cluster, fetch.topic, fetch.partition, fetch.start, uuid)
                    if tenure != self._tenure:
                        return
                    fetch.seek(position)
                    stream.expect(fetch)
                await self._stored()
            except ClientClosed:
                return
            except (BrokerUnavailable, WireError, CoordinationError, PartitionLost) as error:
                if is_final(error) and tenure == self._tenure:
                    stream.assign_failed(fetch, error)
                    return
                where = TopicPartition(fetch.topic, fetch.partition)
                self._log.debug("{where}: no start yet: {error!r}", where=where, error=error)
                await sleep(self._cluster.clock, backoff.next())
            else:
                if tenure == self._tenure:
                    stream.more(fetch)
                return

    def _stored(self) -> Deferred[None]:
        """Return a Deferred that fires with the result of the next commit to begin."""
        waiting = self._waiting.new()
        if not self._storing:
            self._storing = True
            self._background.start(self._store())
        return waiting

    async def _store(self) -> None:
        try:
            while self._waiting:
                await sleep(self._cluster.clock, 0)  # others that are found in this turn of the reactor come along
                waiting, self._waiting = self._waiting, WaitingDeferreds()
                try:
                    await self._commit()
                except Exception as error:
                    waiting.fail(error)
                else:
                    waiting.fire(None)
        finally:
            self._storing = False
