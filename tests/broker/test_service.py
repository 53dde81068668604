"""Tests of logd.broker.service that need neither a disk nor a network."""

from __future__ import annotations

import threading

from twisted.internet.testing import MemoryReactorClock
from twisted.trial.unittest import SynchronousTestCase

from logd.broker.process_end import ProcessEnd
from logd.broker.service import BrokerService
from logd.config import BrokerSettings
from logd.errors import LogdError


class BrokerServiceTests(SynchronousTestCase):
    """``BrokerService``."""

    def test_a_service_that_was_stopped_says_that_it_starts_once(self) -> None:
        """Its threads have ended: without the check the start fails with an error of Twisted's that has no text."""
        service = BrokerService(MemoryReactorClock(), BrokerSettings(data=self.mktemp()), signals=False)
        self.successResultOf(service.stopService())
        error = self.assertRaises(LogdError, service.startService)
        self.assertIn("make another one", str(error))


class ProcessEndTests(SynchronousTestCase):
    """``ProcessEnd``."""

    def test_without_another_thread_a_stop_goes_on(self) -> None:
        """The process then ends by itself, perhaps later."""

        class NoMoreThreads(threading.Timer):
            def start(self) -> None:
                raise RuntimeError("can't start new thread")

        self.patch(threading, "Timer", NoMoreThreads)
        end = ProcessEnd(MemoryReactorClock(), 1.0, False)
        end._begin()
        end.stopped(True)
