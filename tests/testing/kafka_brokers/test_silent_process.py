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
    """A process that neither answers nor ends when it is asked to."""

    def test_it_is_reported_and_ended(self) -> None:
        """The test that uses it would hang, and the process would be left behind."""
        for name in ("_PATIENCE", "_ANSWER_SECONDS"):
            self.patch(logd.testing.kafka_brokers.runs, name, 0.1)
        folder = Path(self.mktemp())
        folder.mkdir()
        run = BrokerInProcess(ServingSettings(data=str(folder), kafka_port=1), str(folder))
        Path(run.log).touch()
        process = subprocess.Popen(
            [sys.executable, "-S", "-c", "import signal; signal.pause()"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        self.addCleanup(process.kill)
        run._process = process
        with self.assertRaisesRegex(LogdError, "does not answer"):
            run.drop()
        self.assertRaises(subprocess.TimeoutExpired, run.stop)
        self.assertIsNotNone(process.poll())
