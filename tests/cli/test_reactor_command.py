"""Tests of logd.cli.reactor_command and of exit statuses, with real processes."""

from __future__ import annotations

import errno
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
from logd.cli.stopping import Stopping
from logd.errors import *

stopping = Stopping()

async def work(reactor):
    {}

sys.exit(run(work, stopping))
"""
#: The work that prints a line, and one more when it is cancelled, and then tidies up for ever.
_ENDLESS = (
    "print('ready', flush=True)\n    try:\n        await Deferred()\n"
    "    finally:\n        print('ready', flush=True)\n        await Deferred()"
)
#: The same, after which nothing is left to do but the last words, with the patience to be inserted.
_ABANDONED = "stopping.patience = {}\n    stopping.last_words = lambda: print('abandoned', file=sys.stderr)\n    "


def caused(error: LogdError, cause: Exception) -> LogdError:
    """Return the error with a cause, as ``raise ... from`` makes it."""
    error.__cause__ = cause
    return error


class StatusTests(SynchronousTestCase):
    """``status_of``."""

    def test_each_kind_of_failure_has_its_status(self) -> None:
        """An error that wraps another one has the status of its cause."""
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
    """``report``."""

    def test_a_missing_topic_names_the_list_command_once(self) -> None:
        """Some errors name it themselves."""
        for text in ("no topic 'x'", "no topic 'x' at y; 'logd topics list' names those that there are"):
            with redirect_stderr(StringIO()) as written:
                report(UnknownTopic(text))
            self.assertEqual(written.getvalue().count("logd topics list"), 1)
            self.assertEqual(written.getvalue().count("\n"), 1)

    def test_an_error_of_the_system_is_one_line(self) -> None:
        """Such as that of a disk which is full when a command writes its output."""
        with redirect_stderr(StringIO()) as written:
            report(OSError(errno.ENOSPC, "No space left on device"))
        self.assertEqual(written.getvalue(), "logd: [Errno 28] No space left on device\n")


class ReactorCommandTests(SynchronousTestCase):
    """``run``, each time in a process of its own."""

    def ended(self, body: str, when_ready: Callable[[subprocess.Popen[str]], None] | None = None) -> tuple[int, str]:
        """Return the status and stderr of a process with this work; ``when_ready`` is called once it printed a line."""
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
                _, errors = process.communicate(timeout=240)
            finally:
                process.kill()
        return process.returncode, errors

    def test_a_command_that_succeeds_is_silent(self) -> None:
        """Output is for the work alone."""
        self.assertEqual(self.ended("await deferLater(reactor, 0)"), (0, ""))

    def test_an_expected_error_is_one_line(self) -> None:
        """A traceback would hide the remedy."""
        self.assertEqual(
            self.ended("raise UnknownTopic('no topic x')"),
            (1, "logd: no topic x: `logd topics list` shows the existing ones\n"),
        )
        self.assertEqual(self.ended("raise BrokerUnavailable('no one there')"), (3, "logd: no one there\n"))
        wrong = "logd: lost; is that the address of its setting `listen`? Another port has another protocol\n"
        self.assertEqual(self.ended("raise NothingHeard('lost.')"), (3, wrong))

    def test_an_unexpected_error_shows_its_traceback(self) -> None:
        """A mistake in the program cannot be reported without its place."""
        status, errors = self.ended("1 / 0")
        self.assertEqual(status, 1)
        self.assertIn("ZeroDivisionError", errors)

    def test_a_closed_pipe_ends_the_command_silently(self) -> None:
        """Other filters end the same way when ``head`` has read enough."""
        self.assertEqual(self.ended("raise BrokenPipeError()"), (141, ""))

    def test_a_signal_cancels_the_work(self) -> None:
        """The work may tidy up, and the status is the signal's."""
        body = (
            "print('ready', flush=True)\n    try:\n        await Deferred()\n"
            "    finally:\n        await deferLater(reactor, 0)\n        print('tidy', file=sys.stderr)"
        )
        for number, status in ((signal.SIGINT, 130), (signal.SIGTERM, 143)):
            ended = self.ended(body, partial(subprocess.Popen.send_signal, sig=number))
            self.assertEqual(ended, (status, "tidy\n"))

    def test_a_signal_in_the_first_turn_is_kept(self) -> None:
        """A command that lost it would have to be interrupted twice."""
        body = "import os, signal\n    os.kill(os.getpid(), signal.SIGINT)\n    await Deferred()"
        self.assertEqual(self.ended(body), (130, ""))

    def test_a_second_signal_ends_the_tidying(self) -> None:
        """Tidying may wait for a broker that never answers."""
        self.assertEqual(self.ended(_ENDLESS, self.twice), (130, ""))
        self.assertEqual(self.ended(_ABANDONED.format("1e6") + _ENDLESS, self.twice), (130, "abandoned\n"))

    def test_tidying_ends_with_the_patience(self) -> None:
        """The rest is abandoned then, as at a second signal."""
        for number, status in ((signal.SIGINT, 130), (signal.SIGTERM, 143)):
            once = partial(subprocess.Popen.send_signal, sig=number)
            self.assertEqual(self.ended(_ABANDONED.format("0.01") + _ENDLESS, once), (status, "abandoned\n"))
        self.assertEqual(self.ended(_ABANDONED.format("0.0") + "await deferLater(reactor, 0)"), (0, ""))

    def twice(self, process: subprocess.Popen[str]) -> None:
        """Send SIGINT, and again once the process tidies up."""
        process.send_signal(signal.SIGINT)
        assert process.stdout is not None
        self.assertEqual(process.stdout.readline(), "ready\n")
        process.send_signal(signal.SIGINT)

    def test_a_stop_that_waits_says_so_and_leaves_last_words(self) -> None:
        """The second signal ends the process at once, and a failure to speak does not keep it."""
        body = (
            "stopping.waits = 'for ever'\n"
            "    def speak():\n        print('2 of 3', file=sys.stderr)\n        1 / 0\n"
            "    stopping.last_words = speak\n"
            "    print('ready', flush=True)\n    try:\n        await Deferred()\n    finally:\n        await Deferred()"
        )

        def again_once_told(process: subprocess.Popen[str]) -> None:
            process.send_signal(signal.SIGINT)
            assert process.stderr is not None
            self.assertEqual(process.stderr.readline(), "logd: stopping: waits for ever; Ctrl-C again ends at once\n")
            process.send_signal(signal.SIGINT)

        self.assertEqual(self.ended(body, again_once_told), (130, "2 of 3\n"))

    def test_a_third_signal_ends_the_last_words(self) -> None:
        """They may wait for a reader of the output that has stopped reading."""
        body = (
            "import os\n    r, w = os.pipe()\n"
            "    def speak():\n        print('speaks', flush=True)\n        os.read(r, 1)\n"
            "    stopping.last_words = speak\n"
            "    print('ready', flush=True)\n    try:\n        await Deferred()\n"
            "    finally:\n        print('waits', flush=True)\n        await Deferred()"
        )

        def thrice(process: subprocess.Popen[str]) -> None:
            assert process.stdout is not None
            for said in ("waits\n", "speaks\n"):
                process.send_signal(signal.SIGINT)
                self.assertEqual(process.stdout.readline(), said)
            process.send_signal(signal.SIGINT)

        self.assertEqual(self.ended(body, thrice), (130, ""))

    def test_a_blocked_thread_does_not_keep_the_process(self) -> None:
        """A read of a terminal or pipe may never end."""
        body = (
            "import os\n    from logd.cli.terminal.blocking_calls import BackgroundThread\n    r, w = os.pipe()\n"
            "    BackgroundThread(reactor).run(os.read, r, 1)\n    await deferLater(reactor, 0.01)"
        )
        self.assertEqual(self.ended(body), (0, ""))
