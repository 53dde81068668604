"""Tests of the end of `logd dead-letters replay`: it waits for the group's positions, and not for ever."""

from __future__ import annotations

import io
from collections.abc import AsyncIterator
from contextlib import redirect_stderr
from typing import Any, NamedTuple

from twisted.internet.defer import Deferred, fail
from twisted.trial.unittest import SynchronousTestCase

from logd.cli.dead_letters.replay import LOOK_SECONDS, ReplayEnds, ReplayRun, until_there
from logd.client.consumer.fetching.losses import Loss
from logd.coord import paths
from logd.coord.errors import ConnectionLoss
from logd.errors import UnknownTopic
from tests.backup.test_backup_file import NODES
from tests.coord.registries.rig import RegistryTestCase


class UntilThereTests(RegistryTestCase):
    """A replay whose positions do not move, in a topic with the uuid "u"."""

    def setUp(self) -> None:
        """Begin to wait for one partition's end."""
        super().setUp()
        self.entry = NODES["/brokers/topics/t"]
        self.outcome(self.tree.create(paths.topic("t"), self.entry, makepath=True))
        ends = ReplayEnds("u", {0: 100}, 100)
        self.waiting = Deferred.fromCoroutine(until_there(self.clock, self.tree, "g", "t", ends))
        self.pass_time(2 * LOOK_SECONDS)
        self.assertNoResult(self.waiting)

    def test_positions_at_the_end(self) -> None:
        """It is over."""
        self.outcome(self.tree.create(paths.group_offset("g", "t", 0), b"100", makepath=True))
        self.pass_time(2 * LOOK_SECONDS)
        self.assertIsNone(self.successResultOf(self.waiting))

    def test_a_deleted_topic(self) -> None:
        """The positions of a topic that was deleted never come to the end: the replay fails."""
        self.outcome(self.tree.delete(paths.topic("t")))
        self.pass_time(2 * LOOK_SECONDS)
        error = self.failureResultOf(self.waiting, UnknownTopic).value
        self.assertIn("topic 't' was deleted during the replay", str(error))

    def test_a_topic_that_is_made_again(self) -> None:
        """A new topic of the same name has other letters."""
        self.outcome(self.tree.set(paths.topic("t"), self.entry.replace(b'"u"', b'"v"')))
        self.pass_time(2 * LOOK_SECONDS)
        error = self.failureResultOf(self.waiting, UnknownTopic).value
        self.assertIn("topic 't' was made again during the replay", str(error))

    def test_a_tree_that_is_away(self) -> None:
        """An outage is waited for, as the consumer does."""
        self.tree.get = self.tree.get_children = lambda *_, **__: fail(ConnectionLoss("away"))  # type: ignore[method-assign]
        self.pass_time(10 * LOOK_SECONDS)
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
