"""An ILogObserver that publishes an application's log events to a topic, and never blocks or breaks the application."""

from __future__ import annotations

import json
import threading
import time
from typing import Any

from twisted.internet.defer import Deferred
from twisted.logger import ILogObserver, LogEvent, eventAsJSON
from twisted.python import threadable
from zope.interface import implementer

from logd.client.producer.producer import Producer

#: Namespaces whose events are not published: they are about publishing, and each would cause another event.
OWN_NAMESPACES = ("logd.client", "logd.deferreds", "logd.net", "logd.protocol")


@implementer(ILogObserver)
class TopicObserver:
    """Publishes each log event as one message of JSON that ``twisted.logger.eventFromJSON`` reads.

    Add it by ``globalLogPublisher.addObserver(TopicObserver(producer, "app-log"))``. May be called from any thread.
    While the producer has no room, or ``limit`` events are under way, events are dropped and counted; the count follows
    as an event of its own once there is room again.
    """

    def __init__(self, producer: Producer, topic: str, limit: int = 10_000) -> None:
        self._producer = producer
        self._topic = topic
        self._limit = limit
        #: Events handed over and neither delivered nor failed. Counted on several threads: a bound, not a balance.
        self._under_way = 0
        #: Events dropped since the last report.
        self._unreported = 0
        self.dropped = 0
        self._waiting = False

    def __call__(self, event: LogEvent) -> None:
        """Publish an event, or drop it. Never raises, never waits."""
        namespace = event.get("log_namespace")
        if isinstance(namespace, str) and namespace.startswith(OWN_NAMESPACES):
            return
        try:
            if self._under_way >= self._limit:
                self._drop()
                return
            data = _as_json(event)
            self._under_way += 1
            if self._on_reactor_thread():
                self._publish(data)
            else:
                self._producer.reactor.callFromThread(self._publish, data)
        except Exception:
            self._drop()

    @staticmethod
    def _on_reactor_thread() -> bool:
        """Return whether to call the producer here: on the reactor's thread or, before a reactor runs, on the main one.

        Events handed over by callFromThread before the reactor runs would come behind a close that follows at once.
        """
        if threadable.ioThread is None:
            return threading.current_thread() is threading.main_thread()
        return threadable.isInIOThread()

    def _publish(self, data: bytes) -> None:
        if not self._producer.buffer_has_room:
            self._under_way -= 1
            self._drop()
            if not self._waiting:
                self._waiting = True
                self._producer.ready().addCallbacks(self._report, self._ended)
            return
        self._producer.send(self._topic, data).addCallbacks(self._delivered, self._lost)

    def _delivered(self, _: object) -> None:
        self._under_way -= 1
        if self._unreported and not self._waiting:
            self._report()

    def _lost(self, _: object) -> None:
        self._under_way -= 1
        self._drop()

    def _drop(self) -> None:
        self.dropped += 1
        self._unreported += 1

    def _report(self, _: object = None) -> None:
        """Publish the number of dropped events, now that there is room."""
        self._waiting = False
        count, self._unreported = self._unreported, 0
        if not count:
            return
        data = json.dumps(
            {
                "log_format": "{dropped} log events were dropped: the producer had no room",
                "dropped": count,
                "log_namespace": __name__,
                "log_time": time.time(),
            }
        ).encode()
        self._under_way += 1

        def failed(_: object) -> None:
            self._under_way -= 1
            self._unreported += count

        done: Deferred[Any] = self._producer.send(self._topic, data)
        done.addCallbacks(self._delivered, failed)

    def _ended(self, _: object) -> None:
        self._waiting = False


def _as_json(event: LogEvent) -> bytes:
    try:
        return eventAsJSON(event).encode()
    except Exception as error:  # a field that cannot be written as JSON
        return json.dumps(
            {
                "log_format": "an event could not be written as JSON: {reason}",
                "reason": repr(error),
                "log_namespace": str(event.get("log_namespace")),
                "log_time": float(event.get("log_time", 0.0)),
            }
        ).encode()
