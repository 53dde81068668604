"""The moves between coordination trees that docs/operations.md describes, with real processes.

Each run has a network of its own, so that the ports are those of the documentation; that needs root and ``unshare``.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from twisted.trial.unittest import SkipTest, SynchronousTestCase

from logd.testing.processes.zookeeper import missing

ROOT = Path(__file__).resolve().parents[3]
#: The longest time of one move, in seconds: each starts ten processes one after the other.
PATIENCE = 600.0
PAGE = (ROOT / "docs" / "operations.md").read_text(encoding="utf-8")
#: Ends the daemons and jobs of a program, and waits for them.
END = """
for file in *.pid; do pid=$(cat $file); kill $pid; while kill -0 $pid 2>/dev/null; do sleep 0.05; done; done
kill $(jobs -p) 2>/dev/null || true
wait
"""
#: Waits until the tree shows a broker.
LISTED = "until logd brokers list | grep -q .; do sleep 0.1; done"
UP = "ip link set lo up"


class OperationsTests(SynchronousTestCase):
    """Moves from one tree to another."""

    def setUp(self) -> None:
        """Make a folder, or skip."""
        if shutil.which("unshare") is None or shutil.which("ip") is None or os.geteuid() != 0:
            raise SkipTest("a network of its own needs root, unshare and ip")
        self.folder = Path(os.path.abspath(self.mktemp()))
        self.folder.mkdir()

    def run_program(self, program: str) -> str:
        """Run a program with bash in a network of its own, and return its output; no command of it may fail."""
        for place in ("/var/lib/logd", "/tmp/logd"):
            program = program.replace(place, f"{self.folder}/logd")
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        environment = {name: value for name, value in os.environ.items() if not name.startswith("LOGD_")}
        done = subprocess.run(
            ["unshare", "-n", "bash", "-e", "-c", f"{UP}\n{program}\n{END}"],
            cwd=self.folder,
            env={**environment, "PATH": path},
            capture_output=True,
            text=True,
            timeout=PATIENCE,
        )
        logs = {each.name: each.read_text(encoding="utf-8")[-2000:] for each in self.folder.glob("*.log")}
        self.assertEqual(done.returncode, 0, (done.stdout, done.stderr, logs))
        for name, text in logs.items():
            self.assertNotIn("Traceback", text, name)
        return done.stdout

    def test_a_broker_moves_to_a_tree_in_its_own_process(self) -> None:
        """The tree's server takes over the broker's former tree, so that its topics and messages stay."""
        start = "twistd --pidfile one.pid --logfile one.log logd --data /var/lib/logd/one"
        self.assertIn("serve that tree with `logd zookeeper --data <data>/coordination`", PAGE)
        printed = self.run_program(
            f"""
            {start}
            {LISTED}; logd brokers list; echo hello | logd produce greetings
            kill $(cat one.pid); while test -e one.pid; do sleep 0.05; done
            logd zookeeper --data /var/lib/logd/one/coordination 2>tree.log &
            {start} --zookeeper 127.0.0.1:2181
            {LISTED}; logd brokers list; logd consume greetings --exit-at-end
            """
        ).splitlines()
        self.assertEqual([line.split("\t")[0] for line in printed], ["0", "0", "hello"])

    def test_a_broker_joins_a_path_of_a_real_zookeeper(self) -> None:
        """The path behind the servers is made by the broker: an operator need not prepare the ZooKeeper."""
        if missing():
            raise SkipTest(missing())
        zookeeper = (
            "from logd.testing.processes.zookeeper import ZooKeeperProcess as Z; z = Z('zk', port=2181).start(); "
            "open('zk.pid', 'w').write(str(z.pid))"
        )
        printed = self.run_program(
            f"""
            {sys.executable} -c "{zookeeper}"
            export LOGD_ZOOKEEPER=localhost:2181/logd
            twistd --pidfile a.pid --logfile a.log logd --data /var/lib/logd/a
            {LISTED}; logd brokers list; echo hello | logd produce greetings; logd consume greetings --exit-at-end
            """
        ).splitlines()
        self.assertEqual((printed[0].split("\t")[0], printed[-1]), ("0", "hello"))
