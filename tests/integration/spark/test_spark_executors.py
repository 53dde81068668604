"""Executors without logd: it is shipped to them, and they need nothing else but the packages of docs/spark.md."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from logd.java_runtime import java_home
from logd.testing.processes.broker import BrokerProcess
from tests.integration.commands.rig import ROOT
from tests.integration.spark.rig import numbered, why_not

PATIENCE = 300
COUNT = 1000

#: A Python that sees only the packages of one folder, not those of the Python that runs the test.
LEAN = """\
#!/bin/sh
PYTHONPATH="$PYTHONPATH:{folder}" exec {python} -S "$@"
"""


class ShippedTests(SynchronousTestCase):
    """A cluster of one executor process, whose Python has only pyarrow."""

    def setUp(self) -> None:
        """Make that Python, and fill two topics; or skip."""
        reason = why_not()
        if reason is not None:
            self.skipTest(reason)
        import pyarrow

        from logd.spark.blocking.cluster import BlockingCluster, ClusterSettings
        from logd.spark.blocking.producing import ExecutorProducer

        self.folder = Path(self.mktemp()).absolute()
        packages = self.folder / "packages"
        packages.mkdir(parents=True)
        packages.joinpath("pyarrow").symlink_to(Path(pyarrow.__file__).parent)
        self.python = self.folder / "python"
        self.python.write_text(LEAN.format(folder=packages, python=sys.executable))
        self.python.chmod(0o755)
        self.shipped = self.folder / "logd.zip"
        self.broker = BrokerProcess(str(self.folder / "data")).start()
        self.addCleanup(self.broker.stop)
        with BlockingCluster(ClusterSettings(brokers=self.broker.address)) as cluster:
            for topic, compression in (("plain", "none"), ("compressed", "zstd")):
                producer = ExecutorProducer(cluster, compression)
                for message in numbered(range(COUNT)):
                    producer.send(topic, message)
                producer.flush()

    def test_executors_read_and_write_with_shipped_logd(self) -> None:
        """Compressed sets and Avro values need more packages: one sentence names the one that is missing."""
        packed = [sys.executable, "-m", "logd.spark.shipping", str(self.shipped)]
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        subprocess.run(packed, check=True, env=environment)
        program = str(Path(__file__).with_name("driver.py"))
        arguments = [self.broker.address, str(self.shipped), "plain", "compressed"]
        environment |= {
            "PYSPARK_PYTHON": str(self.python),
            "PYSPARK_DRIVER_PYTHON": sys.executable,
            "JAVA_HOME": java_home() or "",
            "SPARK_LOCAL_IP": "127.0.0.1",
        }
        done = subprocess.run(
            [sys.executable, program, *arguments], env=environment, capture_output=True, timeout=PATIENCE, check=False
        )
        self.assertEqual(done.returncode, 0, done.stderr.decode())
        found = json.loads(done.stdout.splitlines()[-1])
        self.assertEqual((found["read"], found["written"], found["again"]), (str(COUNT), "None", str(2 * COUNT)))
        self.assertIn(
            "a compressed message set needs the package cramjam, which is not installed for", found["compressed"]
        )
        self.assertIn("the option avroSchema needs the package fastavro, which is not installed for", found["avro"])
