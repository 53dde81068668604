"""The work of operators on topics meanwhile: replicas, settings, partitions, retention, deletion, unclean elections."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from contextlib import suppress
from random import Random
from typing import Any

from attrs import define, field
from twisted.internet.defer import Deferred
from twisted.python.failure import Failure

from logd.broker.replication.leader import LeaderRole
from logd.coord.errors import CoordinationError
from logd.coord.interfaces import ICoordination
from logd.coord.records import SessionState
from logd.coord.registries.operator_requests import (
    Reassignment,
    change_reassignment,
    request_election,
    set_draining,
)
from logd.errors import LogdError
from tests.simulation.replication.cluster import REMADE, TOPIC, ReplicatedCluster
from tests.simulation.violation import Violation

#: The most partitions that the topic grows to.
MOST_PARTITIONS = 3


@define(eq=False)
class Operators:
    """They act through any broker that runs."""

    cluster: ReplicatedCluster
    random: Random
    _draining: set[int] = field(factory=set, init=False)
    _over: bool = field(default=False, init=False)
    _remade: int = field(default=0, init=False)

    def _tree(self) -> ICoordination | None:
        """Return a broker's client of the tree that is connected."""
        for broker in self.cluster.brokers:
            client = broker.coordination
            if client is not None and client.state is SessionState.CONNECTED and broker.clock is not None:
                return client
        return None

    def _do(self, work: Coroutine[Any, Any, object]) -> None:
        Deferred.fromCoroutine(work).addErrback(self._failed)

    def _failed(self, failure: Failure) -> None:
        if not failure.check(LogdError, CoordinationError):
            raise Violation(f"an operator's request failed: {failure.value!r}") from failure.value

    def reassign(self) -> None:
        """Ask for other replicas of a partition."""
        tree, checker = self._tree(), self.cluster.checker
        replicas = checker.replicas()
        if tree is not None and replicas and not self._over:
            partition = self.random.choice(sorted(replicas))
            numbers = range(len(self.cluster.brokers))
            wanted = tuple(self.random.sample(numbers, min(self.cluster.replicas, len(numbers))))
            asked = Reassignment(checker.uuid, {partition: wanted})
            self._do(change_reassignment(tree, TOPIC, lambda _: asked))

    def drain(self) -> None:
        """Let a broker lead nothing, or lead again."""
        tree = self._tree()
        if tree is not None and not self._over:
            broker = self.random.randrange(len(self.cluster.brokers))
            drains = broker not in self._draining
            (self._draining.add if drains else self._draining.discard)(broker)
            self._do(set_draining(tree, broker, drains))

    def elect_unclean(self) -> None:
        """Let any live replica lead each partition that has no leader; what only others have is lost."""
        tree, checker, rot = self._tree(), self.cluster.checker, self.cluster.rot
        if tree is not None and not self._over and not rot.harms():
            rot.is_over = True
            self._do(request_election(tree, TOPIC, checker.uuid, sorted(checker.replicas())))

    def change_least(self) -> None:
        """Set the topic's min.insync.replicas."""
        least = self.random.randint(1, self.cluster.replicas)
        self._change(lambda broker: broker.administration.alter(TOPIC, settings={"min.insync.replicas": str(least)}))

    def restore_least(self) -> None:
        """Let the topic have the brokers' min.insync.replicas."""
        self._change(lambda broker: broker.administration.alter(TOPIC, settings={"min.insync.replicas": ""}))

    def add_partition(self) -> None:
        """Give the topic one partition more."""
        count = len(self.cluster.checker.replicas())
        if 0 < count < MOST_PARTITIONS:
            self._change(lambda broker: broker.administration.alter(TOPIC, partitions=count + 1))

    def remake(self) -> None:
        """Delete the other topic, and create it."""
        replicas, settings = self.cluster.replicas, self.cluster.gathering.of_topics

        async def again(broker: Any) -> None:
            with suppress(LogdError, CoordinationError):
                await broker.administration.delete(REMADE)
            await broker.administration.create(REMADE, 1, settings, replicas=replicas)

        self._change(lambda broker: Deferred.fromCoroutine(again(broker)))

    def remove_messages(self, partition: int) -> None:
        """Remove messages from the beginning of a log that leads, as retention does."""
        log, broker = self.cluster.leading_log(partition), self.cluster.leader(partition)
        if log is None or broker is None or broker.store is None or not isinstance(log.replica, LeaderRole):
            return
        position = self.random.randint(log.start, log.visible_end)
        with suppress(LogdError):
            broker.store.delete_before(log, position, lambda error: None)

    def end(self) -> None:
        """Do nothing more, and let all brokers lead again."""
        self._over = True

        def let_lead() -> None:
            tree = self._tree()
            if tree is None:
                self.cluster.world.clock.callLater(1.0, let_lead)
                return
            for broker in sorted(self._draining):
                self._do(set_draining(tree, broker, False))

        let_lead()

    def _change(self, change: Callable[[Any], Deferred[Any]]) -> None:
        broker = self.cluster.some_broker(self.random)
        if broker is not None and not self._over:
            change(broker).addErrback(self._failed)
