"""Tests of logd.cli.stopping: what a person is told while a signal ends a command."""

from __future__ import annotations

import io
import os
import signal
import sys
from functools import partial
from unittest import mock

from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from logd.cli.stopping import TELL_SECONDS, Stopping
from logd.cli.terminal.progress import ProgressLine
from tests.cli.terminal.doubles import Terminal


class ToldStopTests(SynchronousTestCase):
    """``Stopping``."""

    def setUp(self) -> None:
        """Make a clock, and catch stderr."""
        self.clock = Clock()
        self.patch(sys, "stderr", io.StringIO())

    def told(self) -> str:
        """Return the text on stderr."""
        stream = sys.stderr
        assert isinstance(stream, io.StringIO)
        return stream.getvalue()

    def test_a_long_stop_is_told_once(self) -> None:
        """The line says for what the command waits, and how to end it at once."""
        stopping = Stopping("up to 5 s for an answer")
        stopping.begin(self.clock, signal.SIGINT)
        self.clock.advance(TELL_SECONDS / 2)
        self.assertEqual(self.told(), "")
        self.clock.advance(TELL_SECONDS)
        self.clock.advance(60)
        self.assertEqual(self.told(), "logd: stopping: waits up to 5 s for an answer; Ctrl-C again ends at once\n")

    def test_the_line_of_the_work_is_removed_first(self) -> None:
        """Its figures would go on as if the work did."""
        self.patch(sys, "stderr", terminal := Terminal())
        with mock.patch.dict(os.environ, {"TERM": "xterm", "COLUMNS": "100"}), ProgressLine("to clicks"):
            Stopping("up to 5 s for an answer").begin(self.clock, signal.SIGINT)
            self.clock.advance(TELL_SECONDS)
        self.assertTrue(
            terminal.getvalue().endswith(
                "\x1b[2Klogd: stopping: waits up to 5 s for an answer; Ctrl-C again ends at once\n"
            )
        )

    def test_a_service_is_not_told_of_keys(self) -> None:
        """SIGTERM comes from a program, and goes into its log."""
        Stopping("up to 5 s for an answer").begin(self.clock, signal.SIGTERM)
        self.clock.advance(TELL_SECONDS)
        self.assertEqual(self.told(), "logd: stopping: waits up to 5 s for an answer; another signal ends at once\n")

    def test_a_stop_beyond_its_patience_is_given_up(self) -> None:
        """One that ends before is not."""
        given_up: list[int] = []
        for number, ends in enumerate((2.1, 1.9)):
            stopping = Stopping(patience=2.0)
            stopping.begin(self.clock, signal.SIGINT, partial(given_up.append, number))
            self.clock.advance(ends)
            stopping.end()
        self.clock.advance(2.0)
        self.assertEqual(given_up, [0])

    def test_a_stop_that_takes_no_time_is_silent(self) -> None:
        """It has ended before the line is due."""
        stopping = Stopping("up to 5 s for an answer")
        stopping.end()
        stopping.begin(self.clock, signal.SIGINT)
        stopping.end()
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_a_command_that_waits_for_nothing_is_silent(self) -> None:
        """No command is told to be waiting for what it does not know."""
        Stopping().begin(self.clock, signal.SIGINT)
        self.assertEqual(self.clock.getDelayedCalls(), [])
