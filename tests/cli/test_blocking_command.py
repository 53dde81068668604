"""Tests of logd.cli.blocking_command: the end of a command without a reactor."""

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


class BlockingCommandTests(SynchronousTestCase):
    """``run_blocking``."""

    def end(self, work: Callable[[], None]) -> tuple[int, str]:
        """Run ``work`` as a command; return its status and the text on stderr."""
        errors = io.StringIO()
        self.patch(sys, "stderr", errors)
        handlers = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
        status = run_blocking(work, "; nothing was done", {"Lost": 4})
        self.assertEqual([signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)], handlers)
        return status, errors.getvalue()

    def test_a_command_that_succeeds_is_silent(self) -> None:
        """The status is 0, and the signal handlers are as before."""
        self.assertEqual(self.end(lambda: None), (0, ""))

    def test_a_signal_ends_the_command_where_it_is(self) -> None:
        """The status is the one that shells count for the signal."""
        for number, word in ((signal.SIGINT, "interrupted"), (signal.SIGTERM, "terminated")):

            def work(number: int = number) -> None:
                os.kill(os.getpid(), number)
                raise AssertionError("went on")

            self.assertEqual(self.end(work), (128 + number, f"logd: {word}; nothing was done\n"))

    def test_a_failure_after_a_signal_is_the_signals(self) -> None:
        """An error on the way out, as of py4j's broken connection, would hide the reason."""

        def work() -> None:
            try:
                os.kill(os.getpid(), signal.SIGINT)
            finally:
                raise LogdError("the line to Java is closed")

        self.assertEqual(self.end(work), (130, "logd: interrupted; nothing was done\n"))

    def test_an_interruption_is_not_logged_by_py4j(self) -> None:
        """Records of its logger are dropped while a command runs, and heard again afterwards."""
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

    def test_each_error_has_its_status(self) -> None:
        """The status is the error's own, the one that the command gives it, or 1; the text is one line."""

        class Lost(LogdError):
            """Another was faster."""

        for error, status in ((BrokerUnavailable("a"), 3), (Lost("b"), 4), (LogdError("c"), 1), (OSError("d"), 1)):

            def work(error: Exception = error) -> None:
                raise error

            self.assertEqual(self.end(work), (status, f"logd: {error}\n"))


class EarlyTests(SynchronousTestCase):
    """The time before a command has begun."""

    def test_an_interrupted_import_has_the_usual_status(self) -> None:
        """Ctrl-C while a command's module is imported is 130, as it is later."""

        def load() -> None:
            raise KeyboardInterrupt

        self.patch(Commands, "lazy", {"slow": Lazy("A slow one.", load)})  # type: ignore[arg-type]  # never returns
        result = CliRunner().invoke(main, ["slow"])
        self.assertEqual((result.exit_code, result.output), (130, "logd: interrupted\n"))
