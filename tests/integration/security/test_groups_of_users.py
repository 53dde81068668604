"""Groups that belong to users: a broker with credentials in its own tree, and one in a real ZooKeeper's; real clients.

One broker serves all tests of a class.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import secrets
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attrs import evolve, frozen
from kazoo.client import KazooClient
from kazoo.exceptions import NoAuthError
from kazoo.security import CREATOR_ALL_ACL, OPEN_ACL_UNSAFE, READ_ACL_UNSAFE
from twisted.trial.unittest import SynchronousTestCase

from logd.coord import paths
from logd.errors import AuthenticationFailed, CoordinationUnavailable, TopicAuthorizationFailed, UnknownTopic
from logd.security.access_rules import AccessRule, Effect, Match, Operation, ResourceType
from logd.security.credentials import Credentials
from logd.security.users import User
from logd.spark.blocking.cluster import BlockingCluster, ClusterSettings
from logd.testing.processes.broker import BrokerProcess
from logd.testing.processes.python_process import run_python
from logd.testing.processes.zookeeper import ZooKeeperProcess, missing
from tests.integration.peers import PATIENCE, POLL_SECONDS
from tests.integration.shared_servers import folder_of_process
from tests.integration.topics import fill_topic

if TYPE_CHECKING:
    _Case = SynchronousTestCase
else:
    _Case = object

LOGD = [sys.executable, "-c", "from logd.cli.main import main; main(prog_name='logd')"]
TREE = "logd:a-long-random-password"
USERS = {"root": "the password of root", "ann": "the password of ann", "ben": "the password of ben"}
_places: dict[str, Place] = {}


def rule_of(principal: str, kind: ResourceType, name: str) -> AccessRule:
    """Return a rule that allows a user to read."""
    return AccessRule(principal, Effect.ALLOW, Operation.READ, kind, name)


@frozen
class Place:
    """A broker with users, and what it needs."""

    broker: BrokerProcess
    folder: Path

    def logd(self, user: str, *arguments: str, admin: bool = False, **more: str) -> subprocess.CompletedProcess[str]:
        """Run a command as a user, or with the brokers' credentials in the tree; to its end."""
        return self._run(user, [*LOGD, *arguments], admin, more)

    def python(self, user: str, code: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run a program as a user, with the tree's address and these arguments; to its end."""
        return self._run(user, [sys.executable, "-c", code, self.broker.coordination, *arguments], False, {})

    def _run(
        self, user: str, command: list[str], admin: bool, more: dict[str, str]
    ) -> subprocess.CompletedProcess[str]:
        env = {**os.environ, "LOGD_BROKER": self.broker.address, "LOGD_ZOOKEEPER": self.broker.coordination, **more}
        if user:
            env.update(LOGD_USER=user, LOGD_PASSWORD_FILE=str(self.folder / user))
        if admin:
            env["LOGD_ZOOKEEPER_DIGEST_FILE"] = str(self.folder / "tree")
        return run_python(command, capture_output=True, text=True, env=env, timeout=PATIENCE, check=False)

    def add(self, *rules: AccessRule) -> None:
        """Add access rules, as `logd acl add` does."""
        for rule in rules:
            self.tree(TREE).create(paths.access_rule(rule.id), rule.to_json(), acl=[*CREATOR_ALL_ACL, *READ_ACL_UNSAFE])

    def consume(self, user: str, group: str) -> subprocess.CompletedProcess[str]:
        """Consume topic t in a group up to its end."""
        return self.logd(user, "consume", "t", "--group", group, "--exit-at-end")

    def tree(self, *credentials: str) -> KazooClient:
        """Return a client of the tree that authenticates by USER:PASSWORD."""
        auth = [("digest", each) for each in credentials]
        client = KazooClient(self.broker.coordination, auth_data=auth, timeout=10)
        client.start(PATIENCE)
        atexit.register(client.stop)
        return client


def place(kind: str) -> Place:
    """Return the broker of a kind of tree, which ends with the process; with topic t, and a rule for ann's groups."""
    if kind in _places:
        return _places[kind]
    folder = Path(folder_of_process())
    for name, content in {"tree": TREE, **USERS}.items():
        (folder / name).write_text(f"{content}\n")
        (folder / name).chmod(0o600)
    settings = {
        "zookeeper.digest.file": str(folder / "tree"),
        "security.superusers": "root",
        "security.required": "true",
        "topics.partitions": "2",
    }
    options = [each for name, value in settings.items() for each in ("--set", f"{name}={value}")]
    broker = BrokerProcess(str(folder / "data"), options)
    if kind == "demanding":  # the last option of a name counts
        broker.options = [*options, f"--zookeeper-listen=tcp:{broker.coordination_port}:interface=0.0.0.0"]
    if kind == "real":
        server = ZooKeeperProcess(str(folder / "zookeeper"))
        server.start()
        atexit.register(server.kill)
        broker.zookeeper = f"{server.hosts}/logd"
    broker.start()
    atexit.register(broker.kill)
    found = _places[kind] = Place(broker, folder)
    admin, patience = found.tree(TREE), time.monotonic() + PATIENCE
    while not admin.exists(paths.QUOTAS):  # the last node that the broker makes in a new tree
        if time.monotonic() > patience:
            raise AssertionError("the broker makes no tree")
    for name, password in USERS.items():
        user = User.of(name, password, secrets.token_bytes)
        admin.create(paths.user(name), user.to_json(), acl=CREATOR_ALL_ACL)
    for name in ("ann", "ben"):
        found.add(
            rule_of(name, ResourceType.TOPIC, "t"),
            evolve(rule_of(name, ResourceType.GROUP, f"{name}."), match=Match.PREFIX),
        )
    until_known(broker, "root")
    fill_topic(broker.address, "t", [b"a", b"b", b"c"], user=Credentials("root", USERS["root"]))
    until_known(broker, "ann", "ben")
    return found


def until_known(broker: BrokerProcess, *users: str) -> None:
    """Wait until a broker knows users and what they may read: it hears of both from the tree, after their creator."""
    patience = time.monotonic() + PATIENCE
    for user in users:
        settings = ClusterSettings(brokers=broker.address, credentials=Credentials(user, USERS[user]))
        while True:
            try:
                with BlockingCluster(settings) as cluster, contextlib.suppress(UnknownTopic):
                    cluster.topic("t")
                break
            except (AuthenticationFailed, CoordinationUnavailable, TopicAuthorizationFailed):
                if time.monotonic() > patience:
                    raise
                time.sleep(POLL_SECONDS)


class GroupsOfUsersContract(_Case):
    """The rights of users, and of clients of the tree, to groups."""

    kind: str

    def setUp(self) -> None:
        """Start the broker unless it runs already."""
        self.place = place(self.kind)

    def tree(self, *credentials: str) -> Any:
        """Return a client of the tree that ends with the test."""
        client = self.place.tree(*credentials)
        self.addCleanup(client.close)
        self.addCleanup(client.stop)
        return client

    def refused(self, call: Callable[..., object], *arguments: Any) -> None:
        """Check that the tree refuses a call."""
        self.assertRaises(NoAuthError, call, *arguments)

    def test_only_a_user_with_the_rule_joins_commits_and_reads(self) -> None:
        """By a broker, and by the tree; with a wrong password, another's and none; reconnecting included."""
        place = self.place
        done = place.consume("ann", "ann.g")
        self.assertEqual((sorted(done.stdout.split()), done.returncode), (["a", "b", "c"], 0), done.stderr)
        refused = place.consume("ben", "ann.g")
        self.assertEqual((refused.stdout, refused.returncode), ("", 1))
        self.assertIn("ben may not read group 'ann.g'", refused.stderr)
        ann = self.tree(f"ann:{USERS['ann']}")
        position = ann.get("/consumers/ann.g/offsets/t/0")[0]
        self.assertTrue(position.isdigit())
        for client in (self.tree(), self.tree(f"ben:{USERS['ben']}"), self.tree("ann:wrong"), self.tree("logd:wrong")):
            for path in ("/consumers/ann.g", "/consumers/ann.g/offsets/t", "/consumers/ann.g/offsets/t/0"):
                self.refused(client.get, path)
                self.refused(client.get_children, path)
            self.refused(client.set, "/consumers/ann.g/offsets/t/0", b"0")
            self.refused(client.delete, "/consumers/ann.g/offsets/t/0")
            self.refused(client.create, "/consumers/ann.g/ids/x", b"")
            self.refused(client.create, "/consumers/ben.new", b"")
            self.refused(client.get_children, "/consumers")
            self.refused(client.get, "/security/secret")
            self.refused(client.get, "/security/users/ann")
            self.refused(client.set, "/brokers/topics/t", b"")
            client.get("/brokers/topics/t")
        self.refused(ann.get, "/security/users/ann")
        self.refused(ann.set_acls, "/consumers/ann.g", OPEN_ACL_UNSAFE)
        described = place.logd("ann", "groups", "describe", "ann.g", "--json")
        self.assertEqual(described.returncode, 0, described.stderr)
        stranger = place.logd("ben", "groups", "describe", "ann.g")
        self.assertEqual(stranger.returncode, 1)
        self.assertIn("LOGD_ZOOKEEPER_DIGEST_FILE", stranger.stderr)

    def test_a_user_that_loses_its_rule_loses_its_group(self) -> None:
        """In the tree as well, within seconds, by a session that was open all the while."""
        place = self.place
        rule = rule_of("ben", ResourceType.GROUP, "shared")
        place.add(rule)
        patience = time.monotonic() + PATIENCE
        while (done := place.consume("ben", "shared")).returncode:  # the broker hears of the rule from the tree
            self.assertIn("'shared'", done.stderr)
            self.assertLess(time.monotonic(), patience, done.stderr)
        ben = self.tree(f"ben:{USERS['ben']}")
        ben.get("/consumers/shared/offsets/t/0")
        place.tree(TREE).delete(paths.access_rule(rule.id))
        patience = time.monotonic() + PATIENCE
        while True:
            try:
                ben.set("/consumers/shared/offsets/t/0", b"0")
            except NoAuthError:
                break
            self.assertLess(time.monotonic(), patience, "ben still commits")
            time.sleep(0.02)
        self.refused(ben.get, "/consumers/shared")

    def test_the_tree_is_protected_from_its_first_moment(self) -> None:
        """Nobody has called anything for that."""
        done = self.place.logd("", "tree", "status", "--json", admin=True)
        self.assertEqual(done.returncode, 0, f"{done.stdout}{done.stderr}")


class EmbeddedGroupsTests(GroupsOfUsersContract, SynchronousTestCase):
    """In a broker's own tree."""

    kind = "embedded"


class RealGroupsTests(GroupsOfUsersContract, SynchronousTestCase):
    """In a real ZooKeeper."""

    skip = missing() or None
    kind = "real"
