"""Tests of exit statuses, with real processes."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import redirect_stderr
from functools import partial
from io import StringIO
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from logd.cli.terminal.exits import FAILED, UNREACHABLE, USAGE, report, status_of
from logd.errors import BrokerUnavailable, ConfigurationError, DeliveryFailed, InvalidMessage, LogdError, UnknownTopic

ROOT = Path(__file__).resolve().parent.parent.parent

_FRAME = """\
import sys
from twisted.internet.defer import Deferred, CancelledError
from twisted.internet.task import deferLater
from logd.cli.reactor_command import run
from logd.errors import *

async def work(reactor):
    {}

sys.exit(run(work))
"""


def caused(error: LogdError, cause: Exception) -> LogdError:
    """An error raised from another one."""
    error.__cause__ = cause
    return error


class StatusTests(SynchronousTestCase):
    """status_of."""

    def test_statuses(self) -> None:
        """Each kind of failure has its own status, and one that wraps another has that one's."""
        for error, status in (
            (BrokerUnavailable("x"), UNREACHABLE),
            (ConfigurationError("x"), USAGE),
            (InvalidMessage("x"), FAILED),
            (ZeroDivisionError(), FAILED),
            (BrokenPipeError(), 141),
            (caused(DeliveryFailed("x"), BrokerUnavailable("y")), UNREACHABLE),
            (caused(LogdError("z"), caused(DeliveryFailed("x"), BrokerUnavailable("y"))), UNREACHABLE),
            (caused(DeliveryFailed("x"), InvalidMessage("y")), FAILED),
            (caused(LogdError("x"), OSError()), FAILED),
        ):
            self.assertEqual(status_of(error), status, error)


class ReportTests(SynchronousTestCase):
    """report."""

    def test_topic(self) -> None:
        """Where a topic that is not there is looked for is said once, whoever said it."""
        for text in ("no topic 'x'", "no topic 'x' at y; 'logd topics list' names those that there are"):
            with redirect_stderr(StringIO()) as written:
                report(UnknownTopic(text))
            self.assertEqual(written.getvalue().count("logd topics list"), 1)
            self.assertEqual(written.getvalue().count("\n"), 1)


class RunTests(SynchronousTestCase):
    """run(), each time in a process of its own."""

    def ended(self, body: str, when_ready: Callable[[subprocess.Popen[str]], None] | None = None) -> tuple[int, str]:
        """Exit status and stderr of a process whose work is ``body``; ``when_ready`` once it has printed a line."""
        process = subprocess.Popen(
            [sys.executable, "-c", _FRAME.format(body)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=ROOT,
        )
        with process:
            try:
                if when_ready is not None:
                    assert process.stdout is not None
                    self.assertEqual(process.stdout.readline(), "ready\n")
                    when_ready(process)
                _, errors = process.communicate(timeout=60)
            finally:
                process.kill()
        return process.returncode, errors

    def test_done(self) -> None:
        """A command that ends is a success, and prints nothing of its own."""
        self.assertEqual(self.ended("await deferLater(reactor, 0)"), (0, ""))

    def test_foreseen(self) -> None:
        """What logd raises on purpose is one line, without a traceback."""
        self.assertEqual(
            self.ended("raise UnknownTopic('no topic x')"),
            (1, "logd: no topic x: `logd topics list` shows the existing ones\n"),
        )
        self.assertEqual(self.ended("raise BrokerUnavailable('no one there')"), (3, "logd: no one there\n"))

    def test_unforeseen(self) -> None:
        """A mistake in the program shows its traceback."""
        status, errors = self.ended("1 / 0")
        self.assertEqual(status, 1)
        self.assertIn("ZeroDivisionError", errors)

    def test_broken_pipe(self) -> None:
        """When the reader goes away the command ends as other filters do, without a word."""
        self.assertEqual(self.ended("raise BrokenPipeError()"), (141, ""))

    def test_interrupted(self) -> None:
        """A signal cancels the work, which may tidy up, and gives its status."""
        body = (
            "print('ready', flush=True)\n    try:\n        await Deferred()\n"
            "    finally:\n        await deferLater(reactor, 0)\n        print('tidy', file=sys.stderr)"
        )
        for number, status in ((signal.SIGINT, 130), (signal.SIGTERM, 143)):
            ended = self.ended(body, partial(subprocess.Popen.send_signal, sig=number))
            self.assertEqual(ended, (status, "tidy\n"))

    def test_interrupted_at_once(self) -> None:
        """A signal in the first turn of the work is not lost."""
        body = "import os, signal\n    os.kill(os.getpid(), signal.SIGINT)\n    await Deferred()"
        self.assertEqual(self.ended(body), (130, ""))

    def test_interrupted_twice(self) -> None:
        """Who asks twice does not wait for the tidying."""
        body = (
            "print('ready', flush=True)\n    try:\n        await Deferred()\n"
            "    finally:\n        print('ready', flush=True)\n        await Deferred()"
        )

        def twice(process: subprocess.Popen[str]) -> None:
            process.send_signal(signal.SIGINT)
            assert process.stdout is not None
            self.assertEqual(process.stdout.readline(), "ready\n")
            process.send_signal(signal.SIGINT)

        self.assertEqual(self.ended(body, twice), (130, ""))

    def test_thread_left_behind(self) -> None:
        """A read that never ends does not keep the process."""
        body = (
            "import os\n    from logd.cli.terminal.blocking_calls import BackgroundThread\n    r, w = os.pipe()\n"
            "    BackgroundThread(reactor).run(os.read, r, 1)\n    await deferLater(reactor, 0.01)"
        )
        self.assertEqual(self.ended(body), (0, ""))
