"""``logd import``, ``logd sql`` and ``spark-submit`` on a real standalone cluster: a master, a worker, executors.

LOGD_SPARK_STANDALONE=1 runs it: it starts ten JVMs, which takes minutes on two cores.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import logd.cli
from logd.java_runtime import java_home
from logd.spark.importer.targets.verifying import verify
from logd.testing.processes.broker import free_port
from tests.integration.commands.rig import LOGD, ROOT, CliTestCase
from tests.integration.spark.imports import kill_group, wait_until
from tests.integration.spark.rig import why_not

#: The longest time of one command, in seconds: each starts two JVMs.
PATIENCE = 300
COUNT = 20_000
DAY_MS = 24 * 3600 * 1000


class StandaloneTests(CliTestCase):
    """A master and a worker of two cores on loopback."""

    def setUp(self) -> None:
        """Start the cluster and a broker, or skip."""
        if os.environ.get("LOGD_SPARK_STANDALONE") != "1":
            self.skipTest("starts a Spark cluster, which takes minutes: LOGD_SPARK_STANDALONE=1 runs it")
        reason = why_not()
        if reason is not None:
            self.skipTest(reason)
        super().setUp()
        spec, java = find_spec("pyspark"), java_home()
        assert spec is not None and spec.origin is not None and java is not None
        self.spark = Path(spec.origin).parent
        self.folder = Path(self.mktemp()).absolute()
        self.folder.mkdir()
        self.env |= {"SPARK_LOCAL_IP": "127.0.0.1", "JAVA_HOME": java, "SPARK_WORKER_DIR": str(self.folder / "work")}
        port = free_port()
        self.master = f"spark://127.0.0.1:{port}"
        self.daemon("master.Master", "--host", "127.0.0.1", "--port", str(port))
        self.daemon("worker.Worker", "--cores", "2", "--memory", "1g", self.master)
        self.assertTrue(
            wait_until(lambda: "Registering worker" in (self.folder / "master.Master.log").read_text(), 120)
        )

    def daemon(self, name: str, *arguments: str) -> None:
        """Start a daemon of Spark, which ends with the test."""
        log = self.folder / f"{name}.log"
        with log.open("wb") as output:
            process = subprocess.Popen(
                [
                    self.spark / "bin" / "spark-class",
                    f"org.apache.spark.deploy.{name}",
                    *("--webui-port", "0"),
                    *arguments,
                ],
                stdout=output,
                stderr=subprocess.STDOUT,
                env=self.env,
                start_new_session=True,
            )
        self.addCleanup(kill_group, process)

    def run_there(self, command: list[str], **environment: str) -> tuple[int, str, str]:
        """Run a command to its end; return status, output and errors."""
        done = subprocess.run(
            command, capture_output=True, text=True, env=self.env | environment, timeout=PATIENCE, check=False
        )
        return done.returncode, done.stdout, done.stderr

    def test_import_submit_and_sql_run_on_a_cluster(self) -> None:
        """Executors must import logd, and share the target with the driver; errors keep status and words."""
        self.logd("topics", "create", "t", "--partitions", "2")
        self.logd("produce", "t", given=b"".join(b"%d\n" % number for number in range(COUNT)))
        to = self.folder / "files"
        arguments = ["import", "--topics", "t", "--to", f"file://{to}", "--json"]
        status, out, errors = self.run_there([*LOGD, *arguments, "--master", self.master, "--task-bytes", "50000"])
        self.assertEqual(status, 0, errors)
        self.assertEqual(json.loads(out)["messages"], COUNT)

        self.logd("produce", "t", given=b"".join(b"%d\n" % number for number in range(COUNT, COUNT + 100)))
        submit = [str(self.spark / "bin" / "spark-submit"), "--master", self.master]
        main = str(Path(logd.cli.__file__).with_name("__main__.py"))
        status, out, errors = self.run_there(
            [*submit, main, *arguments], PYSPARK_PYTHON=sys.executable, PYTHONPATH=str(ROOT)
        )
        self.assertEqual(status, 0, out + errors)
        self.assertIn('"messages": 100,', out)
        self.assertEqual((verify(str(to)).messages, verify(str(to)).runs), (COUNT + 100, 2))

        wrong = ["no" if each == "t" else each for each in arguments]
        status, out, errors = self.run_there(
            [*submit, main, *wrong], PYSPARK_PYTHON=sys.executable, PYTHONPATH=str(ROOT)
        )
        self.assertEqual(status, 1, out + errors)
        self.assertIn("there is no topic 'no'", out)

        query = "SELECT count(*) AS n, sum(cast(text AS bigint)) AS sum FROM topic('t')"
        status, out, errors = self.run_there([*LOGD, "sql", query, "--master", self.master, "--json"])
        self.assertEqual(status, 0, errors)
        self.assertEqual(json.loads(out), {"n": COUNT + 100, "sum": sum(range(COUNT + 100))})

    def test_compactions_run_on_a_cluster(self) -> None:
        """On the standalone cluster and on a local-cluster, both with executors in processes of their own."""
        self.logd("topics", "create", "t", "--partitions", "2")
        to = self.folder / "files"
        for run in range(3):
            self.logd("produce", "t", given=b"".join(b"%d\n" % number for number in range(run * 500, run * 500 + 500)))
            self.logd("import", "--topics", "t", "--to", f"file://{to}")
        for path in to.glob("run=*/_offsets.json"):
            offsets = json.loads(path.read_text(encoding="utf-8"))
            path.write_text(json.dumps(offsets | {"began_ms": offsets["began_ms"] - DAY_MS}), encoding="utf-8")
        for number, master in enumerate((self.master, "local-cluster[1,1,1024]")):
            copy = shutil.copytree(to, self.folder / f"copy{number}")
            command = [*LOGD, "import", "--to", f"file://{copy}", "--json", "--compact", "--master", master]
            status, out, errors = self.run_there(command, PYSPARK_PYTHON=sys.executable, PYTHONPATH=str(ROOT))
            self.assertEqual(status, 0, errors)
            (group,) = json.loads(out)["groups"]
            self.assertEqual((group["first_run"], group["run"], group["messages"]), (1, 2, 1000))
            self.assertEqual((verify(str(copy)).messages, verify(str(copy)).runs), (1500, 2))
