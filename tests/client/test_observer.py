"""Tests of logd.client.observer."""

from __future__ import annotations

import json
from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.task import Clock
from twisted.internet.threads import deferToThread
from twisted.logger import ILogObserver, Logger, LogPublisher
from twisted.trial.unittest import SynchronousTestCase, TestCase
from zope.interface.verify import verifyObject

from logd.client.observer import TopicObserver
from logd.client.producer.producer import Producer
from logd.protocol.requests.produce_ack import ProduceAck
from tests.client.doubles import ModelBroker, run


class TopicObserverTests(SynchronousTestCase):
    """TopicObserver, on the reactor's thread."""

    def setUp(self) -> None:
        """Make an observer of a small producer, and a logger for it."""
        self.clock = Clock()
        self.broker = ModelBroker(self.clock)
        self.log = self.broker.add("app")[0]
        self.producer = Producer(
            "model:1", reactor=self.clock, connect=self.broker.connect, buffer_bytes=12_000, delivery_timeout=5.0
        )
        self.observer = TopicObserver(self.producer, "app", limit=50)
        self.logger = Logger("app.thing", observer=LogPublisher(self.observer))
        self.patch(type(self.observer), "_on_reactor_thread", staticmethod(lambda: True))

    def events(self) -> list[dict[str, Any]]:
        """Return the published events, decoded."""
        return [json.loads(payload or b"") for payload in self.log.payloads()]

    def test_an_observer_provides_its_interface(self) -> None:
        """Twisted's logger asks nothing else of it."""
        verifyObject(ILogObserver, self.observer)

    def test_an_event_becomes_one_message_of_json(self) -> None:
        """The fields of the event are the fields of the object."""
        self.logger.info("{what} happened", what="it")
        run(self.clock, 0.1)
        (event,) = self.events()
        self.assertEqual((event["what"], event["log_namespace"]), ("it", "app.thing"))

    def test_an_observer_never_raises(self) -> None:
        """A log line must not fail its code: what is no JSON is described, and what cannot be sent is counted."""
        circle: list[Any] = []
        circle.append(circle)
        self.logger.info("circle", circle=circle)
        run(self.clock, 0.1)
        self.assertEqual(self.events()[0]["log_namespace"], "app.thing")
        self.producer.close()
        self.logger.info("too late")
        self.assertEqual(self.observer.dropped, 1)

    def test_events_about_publishing_are_not_published(self) -> None:
        """Each of them would make another one."""
        Logger("logd.client.cluster.link", observer=self.observer).warn("trouble")
        Logger("logd.net.connection", observer=self.observer).warn("trouble")
        Logger("logd.deferreds.background.Background", observer=self.observer).warn("a bug in a producer")
        run(self.clock, 0.1)
        self.assertEqual(self.broker.requests, [])

    def test_events_are_dropped_when_the_producer_is_full(self) -> None:
        """The count of dropped events is published once there is room again."""
        self.broker.silent = (ProduceAck,)
        for number in range(100):
            self.logger.info("event {number}", number=number)
        self.assertGreater(self.observer.dropped, 30)
        run(self.clock, 0.1)
        self.broker.silent = ()
        self.broker.lose_all()
        run(self.clock, 3.0)
        self.assertEqual(self.events()[-1]["dropped"], self.observer.dropped)
        published = len(self.events()) - 1
        self.assertEqual(published + self.observer.dropped, 100)

    def test_events_under_way_are_bounded_by_the_limit(self) -> None:
        """Until the topic's metadata is there sends only wait; events beyond the limit are dropped and counted."""
        observer = TopicObserver(self.producer, "app", limit=3)
        for number in range(10):
            Logger("x", observer=observer).info("{number}", number=number)
        self.assertEqual(observer.dropped, 7)
        run(self.clock, 0.1)
        self.assertEqual(self.events()[-1]["dropped"], 7)

    def test_many_events_under_way_are_no_reason_to_drop(self) -> None:
        """Only the limit and a full buffer are, while others wait once thousands of sends are under way."""
        self.logger.info("the first")
        run(self.clock, 0.1)
        self.producer._unfinished.most_sends = 4
        for number in range(8):
            self.logger.info("event {number}", number=number)
        self.assertFalse(self.producer.has_room)
        run(self.clock, 0.3)
        self.assertEqual((self.observer.dropped, len(self.events())), (0, 9))

    def test_an_undelivered_event_counts_as_dropped(self) -> None:
        """A count that left out what timed out would call the topic complete."""
        self.broker.up = False
        self.logger.info("lost")
        run(self.clock, 8.0, step=0.01)
        self.assertEqual(self.observer.dropped, 1)


class ThreadTests(TestCase):
    """TopicObserver, on another thread."""

    async def test_an_event_of_another_thread_is_published(self) -> None:
        """A producer may be used on the reactor's thread alone, so the observer has to change threads."""
        from twisted.internet import reactor

        broker = ModelBroker(reactor)  # type: ignore[arg-type]  # a clock all the same
        log = broker.add("app")[0]
        producer = Producer("model:1", reactor=reactor, connect=broker.connect)
        observer = TopicObserver(producer, "app")
        await deferToThread(Logger("x", observer=observer).info, "from afar")
        turn: Deferred[None] = Deferred()
        reactor.callLater(0, turn.callback, None)
        await turn
        await producer.close()
        self.assertEqual(json.loads(log.payloads()[0] or b"")["log_format"], "from afar")
