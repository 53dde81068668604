"""Access lists of logd's nodes: a new tree is founded protected, and an existing one is protected and opened again."""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import Deferred
from twisted.trial.unittest import SynchronousTestCase

from logd.coord import paths
from logd.coord.access_lists import (
    ANYONE,
    OWNED_ACL,
    PRIVATE_ACL,
    AccessLists,
    Audience,
    BrokerAccess,
    Protection,
    audience_of,
)
from logd.coord.errors import NoAuth
from logd.coord.protection import EVERYBODY, TreeProtection, opening_list
from logd.coord.records import OPEN_ACL, Acl, Identity, Permission
from logd.security.users import zookeeper_digest
from logd.testing.inprocess.client import InProcessCoordination
from tests.coord.rig import TreeClientTestCase

LOGD = zookeeper_digest("logd", "a password")
ANN = zookeeper_digest("ann", "another")
ALL = Permission.ALL
READ_BY_ALL = Acl(Permission.READ, *ANYONE)
MINE = Acl(ALL, "digest", LOGD)


class AudienceTests(SynchronousTestCase):
    """Paths and the clients that they are meant for."""

    def test_each_path_has_a_kind(self) -> None:
        """Names that only begin alike are other nodes."""
        for path, kind in (
            ("/", Audience.BROKERS),
            ("/brokers/topics/t", Audience.BROKERS),
            ("/controller_epoch", Audience.BROKERS),
            ("/security/rules/1", Audience.BROKERS),
            ("/security/users", Audience.SECRET),
            ("/security/users/ann", Audience.SECRET),
            ("/security/secret", Audience.SECRET),
            ("/consumers/g/ids/c", Audience.GROUP),
            ("/brokerage", None),
            ("/elsewhere", None),
        ):
            self.assertIs(audience_of(path), kind, path)

    def test_a_new_node_has_the_list_of_its_kind(self) -> None:
        """A client without credentials makes open nodes; groups may have a list of their own."""
        self.assertEqual(AccessLists().of(paths.SECRET), OPEN_ACL)
        lists = AccessLists((LOGD,))
        self.assertEqual(lists.of("/brokers/ids/1"), OWNED_ACL)
        self.assertEqual(lists.of("/security/users/ann"), PRIVATE_ACL)
        self.assertEqual(lists.of("/security/userspace"), OWNED_ACL)
        lists.groups = (MINE,)
        self.assertEqual((lists.of("/consumers/g"), lists.of("/consumers")), ((MINE,), OWNED_ACL))


class BrokerAccessTests(SynchronousTestCase):
    """The nodes that lists protect."""

    def test_the_state_of_lists(self) -> None:
        """A permission for everybody counts in whatever row it stands."""
        guards = BrokerAccess((LOGD,))
        brokers, secret, group = Audience.BROKERS, Audience.SECRET, Audience.GROUP
        for kind, acl, state in (
            (brokers, (MINE, READ_BY_ALL), Protection.PROTECTED),
            (brokers, (MINE,), Protection.PROTECTED),
            (brokers, OPEN_ACL, Protection.OPEN),
            (brokers, (MINE, Acl(Permission.DELETE, *ANYONE)), Protection.OPEN),
            (brokers, (READ_BY_ALL,), Protection.FOREIGN),
            (brokers, (MINE, Acl(ALL, "digest", ANN)), Protection.FOREIGN),
            (brokers, (Acl(15, "digest", LOGD), READ_BY_ALL), Protection.FOREIGN),
            (brokers, (MINE, Acl(ALL, "ip", "10.0.0.0/8")), Protection.FOREIGN),
            (secret, (MINE,), Protection.PROTECTED),
            (secret, (MINE, READ_BY_ALL), Protection.READABLE),
            (secret, (READ_BY_ALL, MINE), Protection.READABLE),
            (group, (MINE, Acl(ALL, "digest", ANN)), Protection.PROTECTED),
            (group, (MINE, READ_BY_ALL), Protection.READABLE),
        ):
            self.assertIs(guards.state(kind, acl), state, (kind, acl))

    def test_the_list_that_protects(self) -> None:
        """Only a group keeps other clients, and never everybody."""
        guards, ann = BrokerAccess((LOGD,)), Acl(ALL, "digest", ANN)
        self.assertEqual(guards.protected(Audience.BROKERS, (*OPEN_ACL, ann)), (MINE, READ_BY_ALL))
        self.assertEqual(guards.protected(Audience.SECRET, (*OPEN_ACL, ann)), (MINE,))
        self.assertEqual(guards.protected(Audience.GROUP, (*OPEN_ACL, ann)), (MINE, ann))


class ProtectionTests(TreeClientTestCase):
    """An existing tree."""

    def setUp(self) -> None:
        """Connect a client with credentials, and one without."""
        super().setUp()
        self.stranger = self.client()
        self.brokers = self.known()

    def known(self, identity: str = LOGD) -> InProcessCoordination:
        """Return a connected client with credentials."""
        made = InProcessCoordination(self.host, self.clock, identities=[Identity("digest", identity)])
        self.result(made.connect())
        return made

    def run_(self, coroutine: Any) -> Any:
        """Return the result of a coroutine."""
        return self.result(Deferred.fromCoroutine(coroutine), 3.0)

    def populate(self) -> None:
        """Make an open tree as brokers without credentials do."""
        for path in ("/brokers/ids", "/brokers/topics/t", paths.SECRET, paths.user("ann"), paths.group("g") + "/ids"):
            self.result(self.stranger.create(path, b"x", makepath=True))
        self.result(self.stranger.create(paths.CLUSTER, b"uuid"))

    def refused(self, deferred: Deferred[Any]) -> None:
        """Check that a call is refused."""
        self.turn()
        self.failureResultOf(deferred, NoAuth)

    def test_protecting_and_opening(self) -> None:
        """Each is complete, does nothing the second time, and strangers can do what the state of the tree says."""
        self.populate()
        protection = TreeProtection(self.brokers, True)
        self.assertEqual(self.run_(protection.strangers()), [])
        before = {row.path: row.worst for row in self.run_(protection.summary())}
        self.assertEqual(set(before.values()), {Protection.OPEN})
        self.assertEqual(set(before), {"/", "/brokers", paths.CLUSTER, "/security", *paths.PRIVATE, paths.CONSUMERS})
        changed: list[str] = []
        self.assertEqual(self.run_(protection.protect(changed.append, True)), 0)
        self.assertIn("/consumers/g/ids", changed)
        self.assertLess(changed.index(paths.SECRET), changed.index("/brokers"))
        self.assertEqual({row.worst for row in self.run_(protection.summary())}, {Protection.PROTECTED})
        again: list[str] = []
        self.assertEqual(self.run_(protection.protect(again.append, True)), 0)
        self.assertEqual(again, [])
        for call in (
            self.stranger.get(paths.SECRET),
            self.stranger.get_children(paths.USERS),
            self.stranger.get("/consumers/g/ids"),
            self.stranger.set("/brokers/topics/t", b""),
            self.stranger.delete("/brokers/topics/t"),
            self.stranger.delete(paths.CLUSTER),
            self.stranger.create(paths.CONTROLLER),
            self.stranger.set_acl("/brokers", OPEN_ACL),
        ):
            self.refused(call)
        self.result(self.stranger.get("/brokers/topics/t"))
        opened: list[str] = []
        self.assertEqual(self.run_(protection.unprotect(opened.append)), 0)
        self.assertLess(set(changed), set(opened))
        self.result(self.stranger.set(paths.SECRET, b"mine"))

    def test_an_interrupted_protection_is_resumed(self) -> None:
        """Whatever was done stays, and the next run does the rest."""
        self.populate()
        protection = TreeProtection(self.brokers, True)
        done: list[str] = []

        def stop(path: str) -> None:
            done.append(path)
            if len(done) == 4:
                raise ZeroDivisionError

        running = Deferred.fromCoroutine(protection.protect(stop, True))
        self.turn(3.0)
        self.failureResultOf(running, ZeroDivisionError)
        rest: list[str] = []
        self.assertEqual(self.run_(protection.protect(rest.append, True)), 0)
        self.assertEqual(set(done) & set(rest), set())
        self.assertEqual({row.worst for row in self.run_(protection.summary())}, {Protection.PROTECTED})

    def test_nodes_of_others_are_reported(self) -> None:
        """With the wrong credentials nothing changes, and the number of nodes that stayed is returned."""
        self.populate()
        self.run_(TreeProtection(self.brokers, True).protect(lambda path: None, True))
        wrong = TreeProtection(self.known(ANN), True)
        changed: list[str] = []
        self.assertGreater(self.run_(wrong.protect(changed.append, True)), 5)
        self.assertEqual(changed, [])

    def test_groups_stay_open_without_users(self) -> None:
        """Their parent exists before the root is closed, so that consumers can go on making groups."""
        self.result(self.stranger.create("/brokers"))
        self.run_(TreeProtection(self.brokers, False).protect(lambda path: None, True))
        self.refused(self.stranger.create("/other"))
        self.result(self.stranger.create("/consumers/new/ids", makepath=True))

    def test_a_live_broker_without_credentials_is_named(self) -> None:
        """Its own node is the sign; the node of a broker with credentials is none."""
        self.result(self.stranger.create(paths.broker(1), ephemeral=True, makepath=True))
        self.result(self.brokers.create(paths.broker(2), ephemeral=True))
        self.assertEqual(self.run_(TreeProtection(self.brokers, True).strangers()), ["1"])

    def test_a_new_tree_is_founded_protected(self) -> None:
        """Every place is there before a stranger can make it; a root with other applications is left to them."""
        protection = TreeProtection(self.brokers, False)
        self.assertEqual(self.run_(protection.found(True)), [])
        self.refused(self.stranger.create(paths.user("ann")))
        self.refused(self.stranger.create(paths.CONTROLLER))
        self.assertEqual({row.worst for row in self.run_(protection.summary())}, {Protection.PROTECTED})
        self.assertEqual(self.run_(protection.found(True)), [])

    def test_a_shared_root_stays_open(self) -> None:
        """Other applications have nodes there."""
        self.result(self.stranger.create("/hbase"))
        protection = TreeProtection(self.brokers, False)
        self.assertEqual(self.run_(protection.others_at_root()), ["hbase"])
        self.assertEqual(self.run_(protection.found(True)), ["/"])
        self.result(self.stranger.create("/other"))

    def test_lists_that_are_open_are_left(self) -> None:
        """The row that makes a list explicit does not make it another one."""
        self.result(self.stranger.create(paths.CONSUMERS, acl=EVERYBODY))
        (node,) = [
            each for each in [self.run_(TreeProtection(self.brokers, True)._seen(paths.CONSUMERS))] if each is not None
        ]
        self.assertIs(node.state, Protection.OPEN)
        self.assertEqual(opening_list(node), OPEN_ACL)
