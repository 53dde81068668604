"""Trees that other machines can reach: a broker's own and ``logd zookeeper`` demand credentials, or do not start."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from kazoo.client import KazooClient
from kazoo.exceptions import NoAuthError
from kazoo.protocol.states import KazooState
from twisted.trial.unittest import SynchronousTestCase

from logd.testing.processes.broker import free_port
from logd.testing.processes.coordination import CoordinationProcess
from logd.testing.processes.python_process import run_python
from tests.integration.peers import PATIENCE
from tests.integration.security.test_groups_of_users import LOGD, TREE, USERS, Place, place

_ALL = "tcp:{}:interface=0.0.0.0"


def run(*command: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a command that ends by itself."""
    env = {**os.environ, **environment}
    return run_python(command, capture_output=True, text=True, env=env, timeout=PATIENCE, check=False)


class RefusedStartTests(SynchronousTestCase):
    """Listeners for other machines."""

    def data(self) -> str:
        """Return the path of a directory that does not exist yet."""
        return str(Path(self.mktemp()).absolute())

    def test_without_credentials_neither_starts(self) -> None:
        """The error names the setting, the danger, and each remedy."""
        endpoint = _ALL.format(free_port())
        for command, setting in (
            ([*LOGD, "zookeeper", "--data", self.data(), "--listen", endpoint], "--listen"),
            ([*LOGD, "broker", "--data", self.data(), "--zookeeper-listen", endpoint], "zookeeper.listen"),
        ):
            done = run(*command)
            self.assertNotEqual(done.returncode, 0, command)
            for words in (setting, endpoint, "zookeeper.digest.file", "interface=127.0.0.1", "--open-to-network"):
                self.assertIn(words, f"{done.stdout}{done.stderr}")
            self.assertNotIn("Traceback", f"{done.stdout}{done.stderr}")

    def test_a_certificate_that_is_missing_is_named(self) -> None:
        """As any endpoint that is not allowed."""
        endpoint = f"ssl:{free_port()}:privateKey=/none.key:certKey=/none.pem"
        done = run(*LOGD, "zookeeper", "--data", self.data(), "--listen", endpoint)
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn(f"--listen {endpoint!r} is not allowed: ", done.stderr)
        self.assertNotIn("Traceback", done.stderr)

    def test_the_override_says_what_it_does(self) -> None:
        """Then everybody may do everything, as on loopback."""
        port = free_port()
        options = ("--listen", _ALL.format(port), "--open-to-network")
        with CoordinationProcess(self.data(), options, port) as server:
            client = KazooClient(server.hosts, timeout=10)
            client.start(PATIENCE)
            client.create("/x")
            client.stop()
            client.close()
            self.assertIn("to all who can connect", server.end_of_log())


class DemandingTreeTests(SynchronousTestCase):
    """A broker with users, whose own tree other machines can reach; kazoo, and commands, as its clients."""

    place: Place

    def setUp(self) -> None:
        """Start the broker unless it runs already."""
        self.place = place("demanding")

    def tree(self, *credentials: str) -> Any:
        """Return a client of the tree that ends with the test."""
        client = self.place.tree(*credentials)
        self.addCleanup(client.close)
        self.addCleanup(client.stop)
        return client

    def test_strangers_read_nothing_and_users_what_lists_allow(self) -> None:
        """A user consumes in a group as at any tree, and a command without credentials is told what is missing."""
        for client in (self.tree(), self.tree("ann:wrong"), self.tree("logd:wrong")):
            for call in (client.get, client.exists, client.get_children):
                self.assertRaises(NoAuthError, call, "/brokers")
            self.assertRaises(NoAuthError, client.create, "/x")
        ann = self.tree(f"ann:{USERS['ann']}")
        self.assertIn("t", ann.get_children("/brokers/topics"))
        self.assertRaises(NoAuthError, ann.get, "/security/users/ann")
        done = self.place.consume("ann", "ann.demanding")
        self.assertEqual((sorted(done.stdout.split()), done.returncode), (["a", "b", "c"], 0), done.stderr)
        listed = self.place.logd("", "users", "list", admin=True)
        self.assertEqual(listed.stdout.split(), sorted(USERS), listed.stderr)
        refused = self.place.logd("", "users", "list")
        self.assertEqual(refused.returncode, 1)
        self.assertIn("LOGD_ZOOKEEPER_DIGEST_FILE", refused.stderr)

    def test_commands_that_write_positions_give_them_to_their_user(self) -> None:
        """A broker is asked for the group's nodes first, and refuses them to a user without the rule."""
        stored = (
            "import sys; from logd.cli.cluster.group_positions import store; "
            "store(sys.argv[1], sys.argv[2], {('t', 0): 0})"
        )
        reset = ("groups", "reset", "ann.reset", "--topic", "t", "--to", "earliest", "--yes")
        admin = self.tree(TREE)
        commands: dict[str, Callable[[str], subprocess.CompletedProcess[str]]] = {
            "ann.reset": lambda user: self.place.logd(user, *reset),
            "ann.stored": lambda user: self.place.python(user, stored, "ann.stored"),
        }
        for group, run_as in commands.items():
            refused = run_as("ben")
            self.assertNotEqual(refused.returncode, 0)
            self.assertIn(f"ben may not read group {group!r}", refused.stderr)
            done = run_as("ann")
            self.assertEqual(done.returncode, 0, done.stderr)
            acl = admin.get_acls(f"/consumers/{group}/offsets/t/0")[0]
            self.assertEqual({each.id.id.partition(":")[0] for each in acl}, {"ann", "logd"})
        done = self.place.consume("ann", "ann.reset")
        self.assertEqual((sorted(done.stdout.split()), done.returncode), (["a", "b", "c"], 0), done.stderr)

    def test_a_consumer_finds_the_brokers_by_a_tree_that_demands_its_user(self) -> None:
        """It is told of no broker but by the tree."""
        hosts = self.place.broker.coordination
        consume = ("consume", "t", "--group", "ann.found", "--zookeeper", hosts, "--exit-at-end")
        done = self.place.logd("ann", *consume, LOGD_BROKER="")
        self.assertEqual((sorted(done.stdout.split()), done.returncode), (["a", "b", "c"], 0), done.stderr)

    def test_a_user_that_is_removed_is_cut_within_a_second(self) -> None:
        """Timed from the answer to the removal, by the client of ZooKeeper."""
        secret = self.place.folder / "fay"
        secret.write_text("the password of fay\n")
        added = self.place.logd("", "users", "add", "fay", "--password-file", str(secret), admin=True)
        self.assertEqual(added.returncode, 0, added.stderr)
        fay, admin = self.tree("fay:the password of fay"), self.tree(TREE)
        fay.get_children("/brokers/topics")
        cut: list[float] = []
        fay.add_listener(lambda state: cut.append(time.monotonic()) if state != KazooState.CONNECTED else None)
        begin = time.monotonic()
        admin.delete("/security/users/fay")
        while not cut and time.monotonic() - begin < 20:
            time.sleep(0.01)
        self.assertTrue(cut)
        # A user that was never admitted has ten seconds. The second is held by a test with a clock: test_admission.
        self.assertLess(cut[0] - begin, 9.0)
