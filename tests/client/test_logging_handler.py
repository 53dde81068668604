"""Tests of logd.client.logging_handler."""

from __future__ import annotations

import contextlib
import io
import logging
import os
import sys
import threading
from collections.abc import Callable
from typing import Any

from twisted.internet import reactor
from twisted.internet.defer import Deferred
from twisted.internet.threads import deferToThread
from twisted.trial.unittest import TestCase

from logd.client.blocking.reactor_thread import call_there
from logd.client.logging_handler import LogdHandler
from logd.errors import InvalidMessage
from logd.protocol.requests.produce_ack import ProduceAck
from tests.client.doubles import ModelBroker


class LogdHandlerTests(TestCase):
    """LogdHandler on a thread, with a broker in memory on the reactor's."""

    timeout = 240

    def setUp(self) -> None:
        """Make a topic and a logger of its own."""
        self.broker = ModelBroker(reactor, delay=0.0)  # type: ignore[arg-type]  # a clock all the same
        self.log = self.broker.add("app")[0]
        self.logger = logging.Logger("shop")

    def handler(self, **settings: Any) -> LogdHandler:
        """Make a handler of the logger."""
        handler = LogdHandler("app", "model:1", connect=self.broker.connect, **settings)
        handler.setFormatter(logging.Formatter("%(levelname)s %(name)s %(message)s"))
        self.logger.addHandler(handler)
        return handler

    def on_thread(self, work: Callable[[], None]) -> Deferred[None]:
        """Run blocking code on a thread."""
        return deferToThread(work)

    def lines(self) -> list[str]:
        """Return the published records."""
        return [(payload or b"").decode() for payload in self.log.payloads()]

    async def test_records_become_messages_in_order(self) -> None:
        """The formatter makes their text; closing delivers what lingers, and later records are dropped."""

        def work() -> None:
            handler = self.handler(linger=60.0)
            for number in range(200):
                self.logger.info("sale %d", number)
            self.logger.warning("café \udc80")
            handler.close()
            self.logger.info("too late")
            self.assertEqual(handler.dropped, 1)
            handler.close()

        await self.on_thread(work)
        expected = [f"INFO shop sale {number}" for number in range(200)]
        self.assertEqual(self.lines(), [*expected, "WARNING shop café \\udc80"])

    async def test_flush_delivers(self) -> None:
        """As logging's own handlers do."""

        def work() -> None:
            handler = self.handler(linger=60.0)
            self.logger.info("1")
            handler.flush()
            self.assertEqual(self.lines(), ["INFO shop 1"])
            handler.close()

        await self.on_thread(work)

    async def test_records_are_dropped_when_the_buffer_is_full(self) -> None:
        """The application is never blocked; the count is published before the next record that has room."""
        self.broker.silent = (ProduceAck,)

        def work() -> None:
            handler = self.handler(buffer_bytes=5000, close_timeout=0.01, request_timeout=0.2, retry_delay=0.01)
            for number in range(2000):
                self.logger.info("sale %d", number)
            self.assertGreater(handler.dropped, 1000)
            self.broker.silent = ()
            while not handler._begun().has_room:  # type: ignore[union-attr]  # it has begun
                handler.flush()
            self.logger.info("after")
            handler._close_timeout = 10.0
            handler.flush()
            reports = [line.split()[2].replace(",", "") for line in self.lines() if " could not be published" in line]
            self.assertEqual(sum(map(int, reports)), handler.dropped)
            self.assertEqual(self.lines()[-1], "INFO shop after")
            handler.close()

        await self.on_thread(work)

    async def test_records_that_cannot_be_delivered_are_counted(self) -> None:
        """The number that no record has reported is printed at the end."""
        self.broker.refuse = lambda part: InvalidMessage("bad")
        printed = io.StringIO()
        self.patch(sys, "stderr", printed)

        def work() -> None:
            handler = self.handler()
            self.logger.info("1")
            self.logger.info("2")
            handler.flush()
            self.assertEqual(handler.dropped, 2)
            handler.close()

        await self.on_thread(work)
        self.assertIn("2 log records for topic app could not be published", printed.getvalue())

    async def test_a_handler_never_raises(self) -> None:
        """A wrong setting is shown as logging shows a handler's errors, and the project's own records pass by."""
        printed = io.StringIO()
        self.patch(sys, "stderr", printed)

        def work() -> None:
            handler = self.handler(acks="all")
            self.logger.info("1")
            logger = logging.Logger("logd.client")
            logger.addHandler(handler)
            logger.info("2")
            self.assertEqual(handler.dropped, 1)
            handler.close()

        await self.on_thread(work)
        self.assertEqual(self.broker.requests, [])

    def test_own_records_do_not_wait_for_the_lock(self) -> None:
        """At the exit logging holds it while the flush waits for the thread that may warn of a broker that is away."""
        handler = self.handler()
        handler.acquire()
        record = logging.makeLogRecord({"name": "logd", "msg": "a broker is away"})
        thread = threading.Thread(target=handler.handle, args=(record,), daemon=True)
        thread.start()
        thread.join(5.0)
        self.assertFalse(thread.is_alive())
        handler.release()
        handler.close()

    async def test_a_formatter_with_fields_of_a_filter_harms_no_later_record(self) -> None:
        """The report of dropped records has no such fields: it goes without the formatter."""
        self.broker.refuse = lambda part: InvalidMessage("bad")

        def work() -> None:
            handler = self.handler()
            handler.setFormatter(logging.Formatter("%(request)s %(message)s"))
            self.logger.info("1", extra={"request": "a"})
            handler.flush()
            self.broker.refuse = lambda part: None
            self.logger.info("2", extra={"request": "b"})
            self.logger.info("3", extra={"request": "c"})
            handler.close()
            self.assertEqual(handler.dropped, 1)

        await self.on_thread(work)
        report, *others = self.lines()
        self.assertTrue(report.startswith("1 log record"), report)
        self.assertEqual(others, ["b 2", "c 3"])

    async def test_the_reactors_thread_never_waits_for_the_lock(self) -> None:
        """Another thread holds it while it waits for that thread: each would wait for the other."""
        handler = self.handler()

        def work() -> None:
            self.logger.info("1")
            with handler.lock or contextlib.nullcontext():
                call_there(reactor, lambda: self.logger.info("on the reactor's thread"))
            self.assertEqual(handler.dropped, 1)
            handler.close()

        await self.on_thread(work)

    async def test_no_drop_is_lost_between_threads(self) -> None:
        """One thread drops a record at the moment in which the reactor's counts messages that were not delivered."""
        handler = self.handler()

        late = threading.Thread(target=handler.handle, args=(logging.makeLogRecord({"name": "shop"}),))

        class Count(int):
            def __radd__(self, before: int) -> int:
                if late.ident is None:
                    late.start()
                    late.join()
                return before + int(self)

        handler.close()
        handler._undelivered("app", Count(2), InvalidMessage("bad"))
        self.assertEqual(handler.dropped, 3)

    async def test_a_forked_child_drops_records_and_ends(self) -> None:
        """It has no thread that would publish them, so it does not wait for one."""
        printed = io.StringIO()
        self.patch(sys, "stderr", printed)

        def work() -> None:
            handler = self.handler()
            self.logger.info("1")
            handler.flush()
            process = os.getpid()
            self.patch(os, "getpid", lambda: process + 1)
            self.logger.info("in the child")
            handler.flush()
            handler.close()
            self.assertEqual(handler.dropped, 1)
            self.patch(os, "getpid", lambda: process)
            producer = handler._producer
            assert producer is not None
            producer.close()

        await self.on_thread(work)
        self.assertEqual(self.lines(), ["INFO shop 1"])
        self.assertIn("1 log record for topic app could not be published", printed.getvalue())
