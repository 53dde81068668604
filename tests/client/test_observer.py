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
from tests.client.model import ModelBroker, run


class TopicObserverTests(SynchronousTestCase):
    """TopicObserver, on the reactor's thread."""

    def setUp(self) -> None:
        """An observer with a logger."""
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
        """What was published."""
        return [json.loads(payload or b"") for payload in self.log.payloads()]

    def test_interface(self) -> None:
        """It is an ILogObserver."""
        verifyObject(ILogObserver, self.observer)

    def test_publishes(self) -> None:
        """An event becomes one message of JSON with its fields."""
        self.logger.info("{what} happened", what="it")
        run(self.clock, 0.1)
        (event,) = self.events()
        self.assertEqual((event["what"], event["log_namespace"]), ("it", "app.thing"))

    def test_never_raises(self) -> None:
        """An event that cannot be written as JSON is still told of, and one that no producer takes is counted."""
        circle: list[Any] = []
        circle.append(circle)
        self.logger.info("circle", circle=circle)
        run(self.clock, 0.1)
        self.assertEqual(self.events()[0]["log_namespace"], "app.thing")
        self.producer.close()
        self.logger.info("too late")
        self.assertEqual(self.observer.dropped, 1)

    def test_ignores_its_own_kind(self) -> None:
        """Events about publishing are not published."""
        Logger("logd.client.cluster.link", observer=self.observer).warn("trouble")
        Logger("logd.net.connection", observer=self.observer).warn("trouble")
        Logger("logd.deferreds.background.Background", observer=self.observer).warn("a bug in a producer")
        run(self.clock, 0.1)
        self.assertEqual(self.broker.requests, [])

    def test_drops_when_there_is_no_room(self) -> None:
        """With a full producer events are dropped and counted; the count is published once there is room again."""
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

    def test_bounded_while_it_waits(self) -> None:
        """No more than the limit is under way at a time."""
        observer = TopicObserver(self.producer, "app", limit=3)
        for number in range(10):
            Logger("x", observer=observer).info("{number}", number=number)
        self.assertEqual(observer.dropped, 7)
        run(self.clock, 0.1)
        self.assertEqual(self.events()[-1]["dropped"], 7)

    def test_lost_ones_are_counted(self) -> None:
        """Events that could not be delivered in time count as dropped."""
        self.broker.up = False
        self.logger.info("lost")
        run(self.clock, 8.0, step=0.01)
        self.assertEqual(self.observer.dropped, 1)


class ThreadTests(TestCase):
    """TopicObserver, on another thread."""

    async def test_from_another_thread(self) -> None:
        """An event of another thread is published by the reactor's."""
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
