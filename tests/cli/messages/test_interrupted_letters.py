"""Tests of `logd dead-letters` list and replay that end before all letters were read: what was seen is told."""

from __future__ import annotations

import io
from collections.abc import AsyncIterator
from contextlib import redirect_stderr, redirect_stdout
from typing import Any, NamedTuple

from twisted.internet.defer import CancelledError, Deferred
from twisted.trial.unittest import SynchronousTestCase

from logd.cli.dead_letters.listing import ListedLetters
from logd.cli.dead_letters.replay import ReplayRun
from logd.client.consumer.fetching.losses import Loss
from logd.errors import LogdError
from logd.protocol.message import Message
from tests.cli.messages.test_replay import LossyStream
from tests.client.test_dead_letters import LETTER


class LetterBatch(NamedTuple):
    """A batch of letters without losses."""

    messages: tuple[Message, ...]
    losses: tuple[()] = ()


class UnfinishedStream:
    """A stream of one batch, whose end never comes."""

    skipped = 0

    async def batches(self, until: object) -> AsyncIterator[LetterBatch]:
        """Yield a letter, and wait."""
        yield LetterBatch((LETTER.encoded(),))
        await Deferred()


class OneStream:
    """A double of Consumer with that stream."""

    def create_message_streams(self, *_: object, **__: object) -> tuple[UnfinishedStream]:
        """See Consumer."""
        return (UnfinishedStream(),)


class ListedLettersTests(SynchronousTestCase):
    """``ListedLetters``."""

    def test_the_letters_that_were_read_are_shown_before_a_failure(self) -> None:
        """The topic is deleted before all of it was read: its letters can be read no more."""
        listed = ListedLetters("orders.dead", {}, None, False)
        consumer: Any = OneStream()
        shown = io.StringIO()
        with redirect_stdout(shown):
            reading = Deferred.fromCoroutine(listed.read(consumer, {}, {0: 100}))
            self.assertNoResult(reading)
            reading.cancel()
        self.failureResultOf(reading, CancelledError)
        self.assertEqual(shown.getvalue().count("KeyError"), 1)


class FailingCommit:
    """A double of Consumer whose commits are refused."""

    async def commit(self) -> None:
        """See Consumer."""
        raise LogdError("refused")


class FailedReplayTests(SynchronousTestCase):
    """A ``ReplayRun`` that fails."""

    def test_lost_letters_are_told(self) -> None:
        """Their sums are written as they double, and at the end."""
        damage = [Loss("orders.dead", 0, "damage", 10, 30, 20, "skipping the damage at 10")] * 3
        nothing: Any = None
        stream: Any = LossyStream(*damage)
        consumer: Any = FailingCommit()
        running = ReplayRun(nothing, nothing, stream, consumer, None, {}, {0: 100})
        told = io.StringIO()
        with redirect_stderr(told):
            self.failureResultOf(Deferred.fromCoroutine(running.read()), LogdError)
        self.assertIn("3 such losses by now, 60 bytes", told.getvalue())
