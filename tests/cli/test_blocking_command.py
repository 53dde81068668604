"""Tests of how commands without a reactor end, whatever ends them."""

from __future__ import annotations

import io
import logging
import os
import signal
import sys
from collections.abc import Callable

from click.testing import CliRunner
from twisted.trial.unittest import SynchronousTestCase

from logd.cli.blocking_command import run_blocking
from logd.cli.lazy_group import Lazy
from logd.cli.main import Commands, main
from logd.errors import BrokerUnavailable, LogdError


class EndedTests(SynchronousTestCase):
    """run_blocking()."""

    def end(self, work: Callable[[], None]) -> tuple[int, str]:
        """The status of a command that does that, and what it says."""
        errors = io.StringIO()
        self.patch(sys, "stderr", errors)
        handlers = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
        status = run_blocking(work, "; nothing was done", {"Lost": 4})
        self.assertEqual([signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)], handlers)
        return status, errors.getvalue()

    def test_done(self) -> None:
        """Nothing to say."""
        self.assertEqual(self.end(lambda: None), (0, ""))

    def test_signals(self) -> None:
        """A signal ends it where it is, with the status that shells count for it."""
        for number, word in ((signal.SIGINT, "interrupted"), (signal.SIGTERM, "terminated")):

            def work(number: int = number) -> None:
                os.kill(os.getpid(), number)
                raise AssertionError("went on")

            self.assertEqual(self.end(work), (128 + number, f"logd: {word}; nothing was done\n"))

    def test_failure_by_a_signal(self) -> None:
        """What fails on the way out, since a signal has come, is said to have ended by it."""

        def work() -> None:
            try:
                os.kill(os.getpid(), signal.SIGINT)
            finally:
                raise LogdError("the line to Java is closed")

        self.assertEqual(self.end(work), (130, "logd: interrupted; nothing was done\n"))

    def test_py4j(self) -> None:
        """What py4j logs of an interruption, under its own name or under none, is for nobody; afterwards it may log."""
        logger = logging.getLogger("py4j.clientserver")
        heard: list[str] = []
        listener = logging.Handler()
        listener.emit = lambda record: heard.append(record.getMessage())  # type: ignore[method-assign]
        logging.getLogger().addHandler(listener)
        self.addCleanup(logging.getLogger().removeHandler, listener)

        def work() -> None:
            logger.error("an interruption")
            logging.getLogger("others").error("a failure")

        self.assertEqual(self.end(work)[0], 0)
        self.assertEqual(heard, ["a failure"])
        logger.error("later")
        self.assertEqual(heard, ["a failure", "later"])

    def test_errors(self) -> None:
        """An error has its own status, the one that its command gives it, or 1; its text is one line."""

        class Lost(LogdError):
            """Another was faster."""

        for error, status in ((BrokerUnavailable("a"), 3), (Lost("b"), 4), (LogdError("c"), 1), (OSError("d"), 1)):

            def work(error: Exception = error) -> None:
                raise error

            self.assertEqual(self.end(work), (status, f"logd: {error}\n"))


class EarlyTests(SynchronousTestCase):
    """Before a command has begun."""

    def test_interrupted(self) -> None:
        """Ctrl-C while a command is imported is status 130, as it is later."""

        def load() -> None:
            raise KeyboardInterrupt

        self.patch(Commands, "lazy", {"slow": Lazy("A slow one.", load)})  # type: ignore[arg-type]  # never returns
        result = CliRunner().invoke(main, ["slow"])
        self.assertEqual((result.exit_code, result.output), (130, "logd: interrupted\n"))
