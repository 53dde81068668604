"""Tests of a broker for tests whose process hangs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

import logd.testing.kafka_brokers.runs
from logd.errors import LogdError
from logd.testing.kafka_brokers.runs import BrokerInProcess
from logd.testing.kafka_brokers.serving import ServingSettings


class SilentProcessTests(SynchronousTestCase):
    """A process that does not do what it is asked to: a test would hang, and the process would be left behind."""

    def run_of(self, program: str) -> tuple[BrokerInProcess, subprocess.Popen[bytes]]:
        """Return the run of a broker whose process runs this program, with the process."""
        for name in ("_PATIENCE", "_ANSWER_SECONDS"):
            self.patch(logd.testing.kafka_brokers.runs, name, 0.1)
        folder = Path(self.mktemp())
        folder.mkdir()
        run = BrokerInProcess(ServingSettings(data=str(folder), kafka_port=1), str(folder))
        Path(run.log).touch()
        process = subprocess.Popen(
            [sys.executable, "-S", "-u", "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        self.addCleanup(process.kill)
        run._process = process
        return run, process

    def test_a_process_that_does_not_answer_is_ended(self) -> None:
        """A late answer would be taken for that to the next command."""
        run, process = self.run_of("import signal; signal.pause()")
        for words in ("does not answer", "has ended"):
            with self.assertRaisesRegex(LogdError, words):
                run.drop()
        self.assertRaises(LogdError, run.stop)
        self.assertIsNotNone(process.poll())

    def test_a_process_that_does_not_stop_is_ended(self) -> None:
        """The one who asked is told."""
        run, process = self.run_of("import signal; input(); print('{}'); signal.pause()")
        self.patch(logd.testing.kafka_brokers.runs, "_ANSWER_SECONDS", 60.0)
        self.assertRaises(subprocess.TimeoutExpired, run.stop)
        self.assertIsNotNone(process.poll())
