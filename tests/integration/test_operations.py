"""The commands of docs/operations.md about coordination, run as written, but for the folders.

Each run has a network of its own, so that the ports are those of the documentation; that needs root and ``unshare``.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from unittest import skipUnless

from twisted.trial.unittest import SkipTest, SynchronousTestCase

from logd.testing.zookeeper import missing

ROOT = Path(__file__).resolve().parent.parent.parent
PAGE = (ROOT / "docs" / "operations.md").read_text(encoding="utf-8")
#: Ends what runs, and waits for it.
END = """
for file in *.pid; do pid=$(cat $file); kill $pid; while kill -0 $pid 2>/dev/null; do sleep 0.05; done; done
kill $(jobs -p) 2>/dev/null || true
wait
"""
UP = "ip link set lo up"


def blocks(section: str) -> list[str]:
    """The shell programs of a section."""
    found = re.search(rf"^## {section}\n(.*?)(?=^## )", PAGE, re.M | re.S)
    assert found is not None, section
    return re.findall(r"^```sh\n(.*?)^```", found[1], re.M | re.S)


class OperationsTests(SynchronousTestCase):
    """What a new user copies works."""

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

    def test_there_are_some(self) -> None:
        """The programs are found: the other tests do not pass because there was nothing to run."""
        tls, several, groups = blocks("Coordination")
        self.assertIn("ssl:2182", tls)
        self.assertIn("for n in 1 2 3", several)
        self.assertIn("logd groups list", groups)

    def test_several(self) -> None:
        """Three brokers on one tree are listed; a topic is spread over them."""
        create = "logd topics create t --partitions 3 --broker 127.0.0.1:6662 >&2"
        describe = "logd topics describe t --broker 127.0.0.1:6663"
        printed = self.run_program(f"{blocks('Coordination')[1]}\n{create}\n{describe}").splitlines()
        self.assertEqual([line.split("\t")[0] for line in printed[:3]], ["1", "2", "3"], printed)
        self.assertEqual({line.split("\t")[-1] for line in printed[3:]}, {f"127.0.0.1:666{n}" for n in (1, 2, 3)})

    @skipUnless(find_spec("OpenSSL"), "TLS needs the extra logd[tls]")
    def test_secured(self) -> None:
        """The tree over TLS with credentials: the broker is listed, and who has neither reaches no tree."""
        certificate = blocks("TLS")[0].partition("\n\n")[0]
        stranger = "if LOGD_ZOOKEEPER_TLS_ENABLED= LOGD_ZOOKEEPER_TLS_AUTHORITIES= logd brokers list; then exit 9; fi"
        printed = self.run_program(f"{certificate}\n{blocks('Coordination')[0]}\n{stranger}")
        self.assertEqual(printed.split("\t")[:3], ["1", "127.0.0.1", "6669"])

    def test_embedded_and_from_one_to_several(self) -> None:
        """A broker alone; then on a tree of its own process, which serves what was the broker's."""
        start = "twistd --pidfile one.pid --logfile one.log logd --data /var/lib/logd/one"
        self.assertIn("let `logd zookeeper --data <data>/coordination` serve that very tree", PAGE)
        printed = self.run_program(
            f"""
            {start}
            sleep 2; logd brokers list; echo hello | logd produce greetings
            kill $(cat one.pid); while test -e one.pid; do sleep 0.05; done
            logd zookeeper --data /var/lib/logd/one/coordination 2>tree.log &
            {start} --zookeeper 127.0.0.1:2181
            sleep 2; logd brokers list; logd consume greetings --exit-at-end
            """
        ).splitlines()
        self.assertEqual([line.split("\t")[0] for line in printed], ["0", "0", "hello"])

    def test_zookeeper(self) -> None:
        """A real ZooKeeper, with a path behind the servers that is made when it is not there."""
        if missing():
            raise SkipTest(missing())
        zookeeper = (
            "from logd.testing.zookeeper import ZooKeeperProcess as Z; z = Z('zk', port=2181).start(); "
            "open('zk.pid', 'w').write(str(z.pid))"
        )
        printed = self.run_program(
            f"""
            {sys.executable} -c "{zookeeper}"
            export LOGD_ZOOKEEPER=localhost:2181/logd
            twistd --pidfile a.pid --logfile a.log logd --data /var/lib/logd/a
            sleep 2; logd brokers list; echo hello | logd produce greetings; logd consume greetings --exit-at-end
            """
        ).splitlines()
        self.assertEqual((printed[0].split("\t")[0], printed[-1]), ("0", "hello"))
