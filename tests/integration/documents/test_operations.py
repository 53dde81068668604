"""The moves between coordination trees that docs/operations.md tells of, with real processes.

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
PAGE = (ROOT / "docs" / "operations.md").read_text(encoding="utf-8")
#: Ends what runs, and waits for it.
END = """
for file in *.pid; do pid=$(cat $file); kill $pid; while kill -0 $pid 2>/dev/null; do sleep 0.05; done; done
kill $(jobs -p) 2>/dev/null || true
wait
"""
#: Waits until the tree shows a broker.
LISTED = "until logd brokers list | grep -q .; do sleep 0.1; done"
UP = "ip link set lo up"


class OperationsTests(SynchronousTestCase):
    """From one tree to another."""

    def setUp(self) -> None:
        """A folder for everything."""
        if shutil.which("unshare") is None or shutil.which("ip") is None or os.geteuid() != 0:
            raise SkipTest("a network of its own needs root, unshare and ip")
        self.folder = Path(os.path.abspath(self.mktemp()))
        self.folder.mkdir()

    def run_program(self, program: str) -> str:
        """Run a program with bash where nobody else is, and return what it printed; no command of it may fail."""
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
            timeout=100,
        )
        logs = {each.name: each.read_text(encoding="utf-8")[-2000:] for each in self.folder.glob("*.log")}
        self.assertEqual(done.returncode, 0, (done.stdout, done.stderr, logs))
        for name, text in logs.items():
            self.assertNotIn("Traceback", text, name)
        return done.stdout

    def test_embedded_and_from_one_to_several(self) -> None:
        """A broker alone; then on a tree of its own process, which serves what was the broker's."""
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

    def test_zookeeper(self) -> None:
        """A real ZooKeeper, with a path behind the servers that is made when it is not there."""
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
