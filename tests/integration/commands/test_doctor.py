"""``logd doctor`` beside a real broker, and without one."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

from kazoo.client import KazooClient
from twisted.trial.unittest import SynchronousTestCase

from logd.testing.processes.broker import BrokerProcess
from logd.testing.processes.python_process import run_python
from tests.integration.peers import PATIENCE
from tests.integration.topics import fill_topic

LOGD = [sys.executable, "-m", "logd"]


def keep_whole(broker: BrokerProcess, topic: str) -> None:
    """Give a topic the policy to be compacted, as clients of Kafka do."""
    zookeeper = KazooClient(broker.coordination)
    zookeeper.start()
    try:
        entry = json.loads(zookeeper.get(f"/brokers/topics/{topic}")[0])
        entry["kafka_settings"] = {"cleanup.policy": "compact"}
        zookeeper.set(f"/brokers/topics/{topic}", json.dumps(entry).encode())
    finally:
        zookeeper.stop()


class DoctorTests(SynchronousTestCase):
    """The command as an operator runs it."""

    def doctor(self, broker: BrokerProcess, *more: str) -> tuple[int, dict[tuple[str, str], dict[str, Any]]]:
        """Return the exit status, and the findings by area and subject."""
        ports = ("listen", broker.port), ("zookeeper.listen", broker.coordination_port)
        settings = [f"--set={name}=tcp:{port}:interface=127.0.0.1" for name, port in ports]
        done = run_python(
            [*LOGD, "doctor", "--json", "--data", broker.data, *settings, *more],
            capture_output=True,
            text=True,
            env={name: value for name, value in os.environ.items() if not name.startswith("LOGD_")},
        )
        self.assertEqual(done.stderr, "")
        return done.returncode, {(each["area"], each["subject"]): each for each in json.loads(done.stdout)}

    def test_with_and_without_a_broker(self) -> None:
        """Its words on ports, limits and losses depend on whether the broker runs; every finding has a remedy."""
        broker = BrokerProcess(os.path.abspath(self.mktemp()))
        self.addCleanup(broker.kill)
        broker.start()
        fill_topic(broker.address, "clicks", [b"hello"])
        keep_whole(broker, "clicks")
        status, found = self.doctor(broker)
        self.assertEqual(found["limits", f"broker, process {broker.pid}"]["level"], "ok")
        self.assertEqual(found["ports", f"listen 127.0.0.1:{broker.port}"]["finding"], "answers")
        self.assertIn("(clicks)", found["losses", "1 topic"]["finding"])
        self.assertRegex(found["disks", "1 topic"]["finding"], r"kept whole.* KiB are here \(clicks [0-9.]+ KiB\)")
        self.assertIn("`logd backup FILE`", found["losses", "coordination tree"]["remedy"])
        self.assertEqual(found["security", "coordination tree"]["level"], "note")
        self.assertIn("are all of", found["versions", "brokers of the cluster"]["finding"])
        self.assertTrue(all(each["remedy"] for each in found.values() if each["level"] in ("warning", "problem")))
        problems = [each for each in found.values() if each["level"] == "problem"]
        self.assertEqual(status, 1 if problems else 4, problems)
        broker.stop()
        Path(broker.data).chmod(0o755)
        status, found = self.doctor(broker, "--set", "retention.ms=-1")
        self.assertEqual(found["ports", f"listen 127.0.0.1:{broker.port}"]["finding"], "is free")
        self.assertEqual(found["limits", "a broker started from here"]["level"], "ok")
        self.assertEqual(found["security", broker.data]["level"], "warning")
        self.assertIn("does not run", found["losses", "coordination tree"]["finding"])

    def test_a_tree_that_is_away(self) -> None:
        """Is a problem, and no failure of the command: the rest is told."""
        done = run_python(
            [*LOGD, "doctor", "--zookeeper", "127.0.0.1:1"], capture_output=True, text=True, timeout=PATIENCE
        )
        self.assertEqual(done.returncode, 1)
        self.assertIn("coordination tree 127.0.0.1:1\tdoes not answer", done.stdout)
        self.assertIn("1 problem", done.stderr)

    def test_a_wrong_setting(self) -> None:
        """Is a usage error that names it."""
        done = run_python([*LOGD, "doctor", "--set", "retention.ms=x"], capture_output=True, text=True)
        self.assertEqual(done.returncode, 2)
        self.assertIn("retention.ms", done.stderr)
