"""Tests of the end of `logd dead-letters replay`: it waits for the group's positions, and not for ever."""

from __future__ import annotations

import io
from collections.abc import AsyncIterator
from contextlib import redirect_stderr
from typing import Any, NamedTuple, cast

from twisted.internet.defer import Deferred
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from logd.cli.dead_letters.replay import LOOK_SECONDS, ReplayEnds, ReplayRun, until_there
from logd.client.admin.admin import Admin
from logd.client.consumer.fetching.losses import Loss
from logd.coord.registries.offsets import OffsetRegistry
from logd.errors import BrokerUnavailable, UnknownTopic
from logd.protocol.requests.metadata import TopicMetadata


class Described:
    """A double of Admin: describes a topic by ``uuid``, or fails with ``error``."""

    def __init__(self) -> None:
        self.uuid = "uuid"
        self.error: Exception | None = None

    async def describe(self, topic: str) -> TopicMetadata:
        """See Admin."""
        if self.error is not None:
            raise self.error
        return TopicMetadata(topic, 0, self.uuid, ())


class NoOffsets:
    """A double of OffsetRegistry: of a group that has stored nothing."""

    async def read_all(self, topic: str) -> dict[int, Any]:
        """See OffsetRegistry."""
        return {}


class UntilThereTests(SynchronousTestCase):
    """A replay whose positions do not move."""

    def setUp(self) -> None:
        """Begin to wait for one partition's end."""
        self.clock, self.admin = Clock(), Described()
        self.waiting: Deferred[None] = Deferred.fromCoroutine(
            until_there(
                self.clock,
                cast(Admin, self.admin),
                cast(OffsetRegistry, NoOffsets()),
                "orders.dead",
                ReplayEnds("uuid", {0: 100}, 100),
            )
        )
        self.assertNoResult(self.waiting)

    def test_a_deleted_topic(self) -> None:
        """The positions of a topic that was deleted never come to the end: the replay fails."""
        self.admin.error = UnknownTopic("there is none")
        self.clock.advance(LOOK_SECONDS)
        error = self.failureResultOf(self.waiting, UnknownTopic).value
        self.assertIn("topic 'orders.dead' was deleted during the replay", str(error))

    def test_a_topic_that_is_made_again(self) -> None:
        """A new topic of the same name has other letters."""
        self.admin.uuid = "another"
        self.clock.advance(LOOK_SECONDS)
        error = self.failureResultOf(self.waiting, UnknownTopic).value
        self.assertIn("topic 'orders.dead' was made again during the replay", str(error))

    def test_brokers_that_are_away(self) -> None:
        """An outage is waited for, as the consumer does."""
        self.admin.error = BrokerUnavailable("away")
        self.clock.pump([LOOK_SECONDS] * 10)
        self.assertNoResult(self.waiting)
        self.waiting.cancel()
        self.failureResultOf(self.waiting)


class LossyBatch(NamedTuple):
    """A batch that reports a loss and has no message."""

    losses: tuple[Loss, ...]
    partition: int = 0
    messages: tuple[()] = ()


class LossyStream:
    """A stream of one batch."""

    def __init__(self, *losses: Loss) -> None:
        self.losses = losses
        self.done: list[object] = []

    async def batches(self) -> AsyncIterator[LossyBatch]:
        """Yield the losses."""
        yield LossyBatch(self.losses)

    def handled(self, item: object) -> None:
        """Keep the item."""
        self.done.append(item)


class NothingToCommit:
    """A double of Consumer."""

    async def commit(self) -> None:
        """See Consumer."""


class ReplayRunTests(SynchronousTestCase):
    """``ReplayRun``."""

    def test_lost_letters_are_told(self) -> None:
        """Damaged ones are passed, and so are those that retention removes: the group's position is behind them."""
        stream: Any = LossyStream(Loss("orders.dead", 0, "damage", 10, 30, 20, "skipping the damage at 10"))
        nothing: Any = NothingToCommit()
        running = ReplayRun(nothing, nothing, stream, nothing, None, {}, {0: 100})
        told = io.StringIO()
        with redirect_stderr(told):
            self.successResultOf(Deferred.fromCoroutine(running.read()))
        self.assertEqual(len(stream.done), 1)
        self.assertIn("topic 'orders.dead', partition 0: skipping the damage at 10", told.getvalue())
