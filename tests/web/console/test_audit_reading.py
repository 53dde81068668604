"""Tests of how the console reads the topic of the audit."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any, Self

from attrs import define
from twisted.internet.defer import Deferred, succeed

from logd.audit.event import AUDIT_TOPIC
from logd.client.consumer.fetching.batches import MessageBatch
from logd.client.consumer.read_timeout import PATIENCE
from logd.errors import BrokerUnavailable
from logd.topic import TopicEntry
from logd.web.console.sources import ConsoleSources
from tests.web.console.test_console_pages import PagesTestCase


@define
class SilentConsumer:
    """A consumer and its one stream, of which nothing comes."""

    asked: int = 0

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        """Nothing is open."""

    def create_message_streams(self, *_: Any, **__: Any) -> tuple[Self]:
        """Return the stream."""
        return (self,)

    def end_positions(self) -> Deferred[dict[int, int]]:
        """Return an end that is never reached."""
        return succeed({0: 1000})

    async def batches(self, until: Any) -> AsyncIterator[MessageBatch]:
        """Wait for ever."""
        self.asked += 1
        yield await Deferred()


class SilentSources(ConsoleSources):
    """The sources of a console whose consumer gets nothing."""

    silent = SilentConsumer()

    def consumer(self) -> Any:
        """Return that consumer."""
        return self.silent


class AuditReadingTests(PagesTestCase):
    """A topic whose leader sends nothing, or that has become shorter meanwhile."""

    def test_it_does_not_wait_for_ever(self) -> None:
        """All who ask share one reading: nobody would see the audit again."""
        self.broker.topics.show(AUDIT_TOPIC, TopicEntry("u" * 8, {0: (0,)}))
        sources = SilentSources(self.clock, lambda: self.broker, lambda: self.access.client)
        sources.silent = SilentConsumer()
        for number in (1, 2):
            asking = [Deferred.fromCoroutine(sources.audit()) for _ in range(2)]
            self.clock.advance(PATIENCE)
            self.settle()
            for each in asking:
                self.assertIn(AUDIT_TOPIC, str(self.failureResultOf(each, BrokerUnavailable).value))
            self.assertEqual(sources.silent.asked, number)
