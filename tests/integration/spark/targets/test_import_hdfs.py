"""``logd import`` and ``--compact`` into a real HDFS (a NameNode and a DataNode in one JVM), killed in the middle.

LOGD_HDFS_JARS=FOLDER runs it, which takes minutes. The folder holds ``org.apache.hadoop:hadoop-client-minicluster`` of
the version of pyspark's own jars (3.5.0 for pyspark 4.3.0) with its dependencies, as ``mvn
dependency:copy-dependencies -DoutputDirectory=FOLDER`` puts them there for a pom that names it.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from logd.java_runtime import java_home
from tests.integration.spark.import_loop import TOPIC
from tests.integration.spark.imports import PATIENCE, Ledger, Loop, kill_group
from tests.integration.spark.test_import import LOGD, ImportTestCase

JARS = os.environ.get("LOGD_HDFS_JARS", "")
LAUNCHER = Path(__file__).parent / "java" / "MiniHdfs.java"
MESSAGES = 4000
#: Steps of a compaction at which it is killed.
STEPS = (1, 2, 4, 6, 8)

#: A program that dies at the n-th change in HDFS of an import's rename or a compaction; its clock shows tomorrow.
DYING = (
    """
import os, signal, sys, time
left, when, now = [int(sys.argv.pop())], sys.argv.pop(), time.time
if "--compact" in sys.argv:
    time.time = lambda: now() + 24 * 3600
from logd.spark.importer.targets.folders import HadoopFolders
from logd.spark.importer.targets.hadoop import HadoopTarget
def dying(kind, name):
    change = getattr(kind, name)
    def changed(*given):
        left[0] -= 1
        if not left[0] and when == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        change(*given)
        if not left[0]:
            os.kill(os.getpid(), signal.SIGKILL)
    setattr(kind, name, changed)
for kind, names in ((HadoopFolders, ("make", "put", "move", "remove")), (HadoopTarget, ("rename",))):
    for name in names:
        dying(kind, name)
"""
    + LOGD
)


class HdfsTests(ImportTestCase):
    """A broker, and a directory in HDFS."""

    def setUp(self) -> None:
        """Start HDFS, or skip."""
        if not JARS:
            self.skipTest("starts HDFS, which takes minutes: LOGD_HDFS_JARS=FOLDER runs it")
        super().setUp()
        folder = os.path.abspath(self.mktemp())
        java = java_home()
        assert java is not None
        with open(f"{folder}.log", "wb") as log:
            self.hdfs = subprocess.Popen(
                [f"{java}/bin/java", "-Xmx512m", "-cp", f"{JARS}/*", str(LAUNCHER), folder],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                start_new_session=True,
            )
        self.addCleanup(self.hdfs.communicate)
        self.addCleanup(kill_group, self.hdfs)
        assert self.hdfs.stdout is not None
        uri = self.hdfs.stdout.readline().strip()
        self.assertTrue(uri.startswith("hdfs://"), (uri, Path(f"{folder}.log").read_text()[-2000:]))
        self.to = f"{uri}/logs"

    def kill_at(self, when: str, step: int, *command: str) -> None:
        """Run a command that is killed at a step, with all processes that it started."""
        process = self.logd(*command, when, str(step), program=DYING)
        _, errors = process.communicate(timeout=3 * PATIENCE)
        kill_group(process)
        self.assertEqual(process.returncode, -9, errors)

    def test_imports_and_compactions_that_are_killed_lose_and_double_nothing(self) -> None:
        """The next import continues, and finishes a compaction; Spark reads each message once."""
        ledger = Ledger(self.broker.address)
        loop = Loop(self.to, self.broker.address)
        self.addCleanup(loop.end)
        arguments = ("import", "--topics", TOPIC, "--to", self.to)
        for when in ("before", "after"):
            ledger.publish(MESSAGES)
            self.kill_at(when, 1, *arguments)
            self.imported(loop, ledger)
        for number, step in enumerate(STEPS):
            for _ in range(2):
                ledger.publish(MESSAGES)
                self.assertIsNone(loop.ask().get("error"))
            self.kill_at("after" if number % 2 else "before", step, "import", "--to", self.to, "--compact")
            ledger.publish(MESSAGES)
            self.imported(loop, ledger)
        done = self.logd("import", "--to", self.to, "--compact", "after", "0", program=DYING)
        _, errors = done.communicate(timeout=3 * PATIENCE)
        self.assertEqual(done.returncode, 0, errors)
        self.assertIn("merged", errors)
        self.assertEqual(self.imported(loop, ledger), 2)

    def imported(self, loop: Loop, ledger: Ledger) -> int:
        """Import, check what Spark reads, and return the number of runs."""
        done = loop.ask()
        self.assertIsNone(done.get("error"), done)
        summed = loop.ask("sum")
        self.assertEqual(
            (summed["messages"], summed["places"], summed["checksums"]),
            (ledger.messages, ledger.messages, ledger.checksums()),
        )
        return int(summed["runs"])
