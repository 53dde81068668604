"""Groups are given to the users that rules let read there, and taken away from those that lost their rights."""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import Deferred

from logd.broker.security.authorizer import Authorizer
from logd.broker.security.group_access import USER_PERMISSIONS, GroupAccess
from logd.broker.security.requester import Requester
from logd.coord import paths
from logd.coord.access_lists import ANYONE, AccessLists
from logd.coord.errors import NoAuth
from logd.coord.records import OPEN_ACL, Acl, Identity, Permission
from logd.errors import GroupAuthorizationFailed, InvalidRequest
from logd.security.access_rules import AccessRule, AccessRules, Effect, Operation, ResourceType
from logd.security.principals import ANONYMOUS
from logd.security.users import User, zookeeper_digest
from logd.testing.inprocess.client import InProcessCoordination
from tests.coord.rig import TreeClientTestCase

LOGD = zookeeper_digest("logd", "a password")
PASSWORDS = {"ann": "the password of ann", "ben": "the password of ben", "mal": "the password of mal"}
BROKERS = Acl(Permission.ALL, "digest", LOGD)


def row_of(name: str) -> Acl:
    """Return the row of a user in a group's list."""
    return Acl(USER_PERMISSIONS, "digest", zookeeper_digest(name, PASSWORDS[name]))


class GroupAccessTests(TreeClientTestCase):
    """A broker with credentials, and clients of the tree with and without."""

    def setUp(self) -> None:
        """Let ann and ben read in group g."""
        super().setUp()
        self.authorizer = Authorizer()
        self.tree = self.known("logd", "a password")
        self.tree.access_lists = AccessLists((LOGD,))
        self.access = GroupAccess(self.tree, self.authorizer, self.clock)
        self.users = {name: User({}, zookeeper_digest(name, each)) for name, each in PASSWORDS.items()}
        self.take("ann", "ben")

    def known(self, name: str, password: str = "") -> InProcessCoordination:
        """Return a client of a user."""
        identity = Identity("digest", zookeeper_digest(name, password or PASSWORDS[name]))
        made = InProcessCoordination(self.host, self.clock, identities=[identity])
        self.result(made.connect())
        made.access_lists = AccessLists()
        return made

    def take(self, *readers: str) -> None:
        """Let these read in group g from now on, and the broker see it."""
        self.access.take(self.users)
        rules = [AccessRule(each, Effect.ALLOW, Operation.READ, ResourceType.GROUP, "g") for each in readers]
        self.authorizer.take(AccessRules(rules), bool(self.users))
        self.turn(2.0)

    def prepare(self, name: str, group: str = "g", again: bool = False) -> Any:
        """Prepare a group as the handler of requests does, whose part it is to ask for the right."""
        requester = Requester(name, authenticated=name != ANONYMOUS)
        preparing = Deferred.fromCoroutine(self.access.prepare(requester, group, again))
        return self.result(preparing, 2.0)

    def acl(self, path: str) -> set[Acl]:
        """Return a node's list."""
        return set(self.result(self.tree.get_acl(path))[0])

    def refused(self, deferred: Deferred[Any]) -> None:
        """Check that the tree refuses a call."""
        self.turn()
        self.failureResultOf(deferred, NoAuth)

    def test_a_group_is_made_for_its_user(self) -> None:
        """The user can do everything there but change lists; others, and clients without a user, nothing."""
        self.assertEqual(self.prepare("ann"), (BROKERS, row_of("ann")))
        for path in ("/consumers/g", "/consumers/g/ids", "/consumers/g/owners", "/consumers/g/offsets"):
            self.assertEqual(self.acl(path), {BROKERS, row_of("ann")}, path)
        self.assertEqual(self.acl(paths.CONSUMERS), {BROKERS})
        ann, mal, nobody = self.known("ann"), self.known("mal"), self.client()
        self.result(ann.create("/consumers/g/offsets/t/0", b"5", makepath=True))
        self.refused(ann.set_acl("/consumers/g", OPEN_ACL))
        self.refused(ann.create("/consumers/another"))
        self.refused(ann.get_children(paths.CONSUMERS))
        for client in (mal, nobody):
            for call in (
                client.get("/consumers/g"),
                client.get_children("/consumers/g/ids"),
                client.create("/consumers/g/ids/c"),
                client.create("/consumers/h"),
                client.delete("/consumers/g/ids"),
            ):
                self.refused(call)

    def test_several_users_share_a_group(self) -> None:
        """Whatever the one has made is the other's as well, once that has prepared the group."""
        acl = self.prepare("ann")
        ann, ben = self.known("ann"), self.known("ben")
        ann.access_lists.groups = acl
        self.result(ann.create("/consumers/g/offsets/t/0", b"5", makepath=True))
        self.result(ann.create("/consumers/g/ids/c", ephemeral=True))
        self.assertEqual(self.prepare("ben"), (BROKERS, row_of("ben")))
        self.result(ben.set("/consumers/g/offsets/t/0", b"6"))
        self.result(ann.set("/consumers/g/offsets/t/0", b"7"))
        self.result(ann.create("/consumers/g/offsets/t/1", b"8"))
        self.refused(ben.get("/consumers/g/offsets/t/1"))
        self.prepare("ben")
        self.refused(ben.get("/consumers/g/offsets/t/1"))
        self.prepare("ben", again=True)
        self.result(ben.set("/consumers/g/offsets/t/1", b"9"))
        self.result(self.client().get("/consumers/g/ids/c"))

    def test_a_right_that_is_taken_takes_the_nodes(self) -> None:
        """Without a request, by a change of the rules; the other users keep theirs."""
        acl = self.prepare("ann")
        self.prepare("ben")
        ann, ben = self.known("ann"), self.known("ben")
        ann.access_lists.groups = acl
        self.result(ann.create("/consumers/g/offsets/t/0", b"5", makepath=True))
        self.take("ben")
        for call in (
            ann.get("/consumers/g"),
            ann.set("/consumers/g/offsets/t/0", b"6"),
            ann.get_children("/consumers/g"),
        ):
            self.refused(call)
        self.assertEqual(self.acl("/consumers/g/offsets/t/0"), {BROKERS, row_of("ben")})
        self.result(ben.get("/consumers/g/offsets/t/0"))

    def test_a_removed_user_and_a_former_password_are_nobody(self) -> None:
        """The digest of before opens nothing any more."""
        self.prepare("ann")
        self.prepare("ben")
        ann, ben = self.known("ann"), self.known("ben")
        del self.users["ann"]
        self.users["ben"] = User({}, zookeeper_digest("ben", "another"))
        self.take("ann", "ben")
        self.refused(ann.get("/consumers/g"))
        self.refused(ben.get("/consumers/g"))
        self.assertEqual(self.acl("/consumers/g"), {BROKERS})
        self.prepare("ben")
        self.result(self.known("ben", "another").get("/consumers/g"))

    def test_a_node_that_keeps_brokers_out_is_made_anew(self) -> None:
        """Its content stays; a member's entry, which ends with its session, is removed."""
        self.prepare("ann")
        ann = self.known("ann")
        mine = [Acl(Permission.ALL, "auth", ""), Acl(Permission.READ, *ANYONE)]
        self.result(ann.create("/consumers/g/offsets/t", acl=[BROKERS, row_of("ann")]))
        self.result(ann.create("/consumers/g/offsets/t/0", b"5", acl=mine))
        self.result(ann.create("/consumers/g/ids/c", b"", acl=mine, ephemeral=True))
        self.take("ben")
        self.refused(ann.set("/consumers/g/offsets/t/0", b"6"))
        self.assertEqual(self.result(self.tree.get("/consumers/g/offsets/t/0"))[0], b"5")
        self.assertIsNone(self.result(self.tree.exists("/consumers/g/ids/c")))

    def test_an_open_group_is_closed_by_its_first_user(self) -> None:
        """A group of before there were users, with all that is in it."""
        nobody = self.client()
        self.result(self.tree.set_acl(paths.CONSUMERS, OPEN_ACL))
        self.result(nobody.create("/consumers/g/offsets/t/0", b"5", makepath=True))
        self.prepare("ann")
        self.refused(nobody.set("/consumers/g/offsets/t/0", b"6"))
        self.result(self.known("ann").set("/consumers/g/offsets/t/0", b"6"))

    def test_the_parent_of_groups_is_closed_with_the_first_user(self) -> None:
        """Otherwise a stranger could make a group's nodes before its user does."""
        self.assertEqual(self.acl(paths.CONSUMERS), {BROKERS})

    def test_groups_are_open_without_users_or_credentials(self) -> None:
        """Nothing is made, and the answer says so."""
        self.tree.access_lists = AccessLists()
        self.assertEqual(self.prepare("ann", "h"), ())
        self.tree.access_lists = AccessLists((LOGD,))
        self.users = {}
        self.take()
        self.assertEqual(self.prepare(ANONYMOUS, "h"), ())
        self.assertIsNone(self.result(self.tree.exists("/consumers/h")))

    def test_whoever_may_read_without_a_user_gets_an_open_group(self) -> None:
        """By a rule for anonymous; taking that closes the group again."""
        self.take(ANONYMOUS)
        self.assertEqual(self.prepare(ANONYMOUS), (BROKERS, Acl(USER_PERMISSIONS, *ANYONE)))
        nobody = self.client()
        self.result(nobody.get_children("/consumers/g"))
        self.take("ann")
        self.refused(nobody.get_children("/consumers/g"))

    def test_a_user_without_a_password_cannot_be_known_to_the_tree(self) -> None:
        """One that a certificate names: the error says what to do."""
        preparing = Deferred.fromCoroutine(self.access.prepare(Requester("cert", authenticated=True), "g", False))
        self.turn()
        self.assertIn("logd users add cert", str(self.failureResultOf(preparing, GroupAuthorizationFailed).value))

    def test_names_that_leave_their_place_are_refused(self) -> None:
        """No request reaches another part of the tree."""
        for name in ("", ".", "..", "a/b", "g/../../brokers", "a\0"):
            preparing = Deferred.fromCoroutine(self.access.prepare(Requester("ann", authenticated=True), name, True))
            self.turn()
            self.failureResultOf(preparing, InvalidRequest)

    def test_a_group_of_others_is_named(self) -> None:
        """Its nodes belong to credentials that the brokers do not have."""
        self.result(self.tree.set_acl(paths.CONSUMERS, OPEN_ACL))
        mal = self.known("mal")
        self.result(mal.create("/consumers/g", acl=[Acl(Permission.ALL, "auth", "")]))
        preparing = Deferred.fromCoroutine(self.access.prepare(Requester("ann", authenticated=True), "g", False))
        self.turn()
        self.assertIn("belong to others", str(self.failureResultOf(preparing, GroupAuthorizationFailed).value))
