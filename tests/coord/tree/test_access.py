"""Tests of logd.coord.tree.access, and of the tree's answers under access lists."""

from __future__ import annotations

from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from logd.coord.errors import BadVersion, InvalidAcl, NoAuth
from logd.coord.records import (
    OPEN_ACL,
    Acl,
    Check,
    Create,
    Created,
    Delete,
    Exists,
    GetAcl,
    GetChildren,
    GetData,
    Identity,
    Multi,
    NodeAcl,
    Permission,
    Request,
    SetAcl,
    SetData,
    Stat,
)
from logd.coord.tree.access import digest_identity
from logd.coord.tree.outcome import MultiFailed
from logd.coord.tree.tree import Tree

ALICE = digest_identity(b"alice:secret")
BOB = digest_identity(b"bob:secret")


class DigestTests(SynchronousTestCase):
    """The scheme digest."""

    def test_a_digest_is_that_of_zookeepers_documentation(self) -> None:
        """The vector is the example of its DigestAuthenticationProvider."""
        self.assertEqual(digest_identity(b"super:test"), Identity("digest", "super:D/InIHSb7yEEbrWz8b9l71RjZJU="))

    def test_an_identity_does_not_show_itself_in_a_log(self) -> None:
        """More people may read a log than may read the node."""
        self.assertNotIn("alice", repr(ALICE))


class AccessTests(SynchronousTestCase):
    """Requests of clients with and without permission."""

    def setUp(self) -> None:
        """Open a session."""
        self.tree = Tree()
        self.session = self.tree.open_session(1_000, b"", 0).zxid

    def ask(self, request: Request, *identities: Identity) -> Any:
        """Return the answer to a client of these identities."""
        return self.tree.execute(self.session, identities, request, 0).answer

    def make(self, *acl: Acl, who: tuple[Identity, ...] = (ALICE,)) -> Any:
        """Make a node with that list."""
        return self.ask(Create("/n", acl=acl), *who)

    def test_each_request_needs_its_permission(self) -> None:
        """Making and removing need that of the parent, all else that of the node."""
        requests: dict[Request, Permission] = {
            GetData("/n"): Permission.READ,
            GetChildren("/n"): Permission.READ,
            Check("/n"): Permission.READ,
            SetData("/n", b""): Permission.WRITE,
            Create("/n/b"): Permission.CREATE,
            Delete("/n/a"): Permission.DELETE,
            SetAcl("/n", OPEN_ACL): Permission.ADMIN,
            Exists("/n"): Permission.READ,
        }
        for request, needed in requests.items():
            for granted in (1, 2, 4, 8, 16):
                self.tree = Tree()
                self.tree.open_session(1_000, b"", 0)
                self.make(*OPEN_ACL)
                self.ask(Create("/n/a"))
                self.ask(SetAcl("/n", (Acl(granted, ALICE.scheme, ALICE.id),)))
                allowed = granted == needed
                self.assertIsInstance(self.ask(request, BOB), NoAuth, (request, granted))
                self.assertEqual(not isinstance(self.ask(request, BOB, ALICE), NoAuth), allowed, (request, granted))

    def test_auth_stands_for_every_identity_of_the_client(self) -> None:
        """Its address does not count, and a client with nothing else is refused."""
        address = Identity("ip", "10.0.0.1")
        self.make(Acl(31, "auth", ""), who=(address, ALICE, BOB))
        self.assertEqual(self.tree.nodes["/n"].acl, (Acl(31, "digest", ALICE.id), Acl(31, "digest", BOB.id)))
        self.assertIsInstance(self.ask(Create("/m", acl=(Acl(31, "auth", ""),)), address), InvalidAcl)

    def test_an_address_list_allows_a_network(self) -> None:
        """Addresses outside it, and those of the other family, are shut out."""
        self.make(Acl(31, "ip", "10.1.0.0/16"))
        self.assertIsInstance(self.ask(GetData("/n"), Identity("ip", "10.2.0.1")), NoAuth)
        self.assertIsInstance(self.ask(GetData("/n"), Identity("ip", "::1")), NoAuth)
        self.assertNotIsInstance(self.ask(GetData("/n"), Identity("ip", "10.1.200.1")), NoAuth)

    def test_a_list_that_names_no_one_is_refused(self) -> None:
        """It is refused in making a node and in changing its list."""
        self.make(*OPEN_ACL)
        for acl in (
            (),
            (Acl(31, "world", "me"),),
            (Acl(31, "nobody", "x"),),
            (Acl(31, "digest", "no-hash"),),
            (Acl(31, "digest", "a:b:c"),),
            (Acl(31, "ip", "10.0.0"),),
            (*OPEN_ACL, Acl(31, "", "")),
        ):
            self.assertIsInstance(self.ask(Create("/m", acl=acl)), InvalidAcl)
            self.assertIsInstance(self.ask(SetAcl("/n", acl)), InvalidAcl)

    def test_a_list_has_a_bounded_number_of_rows(self) -> None:
        """All of them are looked at for each request."""
        rows = tuple(Acl(31, "digest", f"{number}:hash") for number in range(129))
        self.assertIsInstance(self.ask(Create("/n", acl=rows)), InvalidAcl)
        self.assertIsInstance(self.ask(Create("/n", acl=rows[1:])), Created)
        self.assertIsInstance(self.ask(SetAcl("/n", rows), Identity("digest", "7:hash")), InvalidAcl)

    def test_many_identities_make_no_unbounded_list(self) -> None:
        """A small request could otherwise fill the memory; nothing of it is done."""
        many = tuple(Identity("digest", f"{number}:{'h' * 28}") for number in range(100))
        rows = tuple(Acl(number, "auth", "") for number in range(1, 1_000))
        self.assertIsInstance(self.ask(Create("/n", acl=rows), *many), InvalidAcl)
        self.assertIsInstance(self.ask(SetAcl("/", rows), *many), InvalidAcl)
        creates = tuple(Create(f"/{number}", acl=rows[:1]) for number in range(300))
        failed = self.ask(Multi(creates), *many)
        self.assertIsInstance(failed, MultiFailed)
        self.assertIsInstance(failed.error, InvalidAcl)
        self.assertEqual(len(self.tree.nodes), 4)
        self.assertIsInstance(self.ask(Multi(creates[:10]), *many), tuple)

    def test_a_repeated_row_is_kept_once(self) -> None:
        """The list is then the open one itself, shared by all nodes."""
        self.make(*OPEN_ACL, *OPEN_ACL)
        self.assertIs(self.tree.nodes["/n"].acl, OPEN_ACL)

    def test_a_list_has_a_version_of_its_own(self) -> None:
        """A client that may not administer the node does not see the hashes."""
        rows = Acl(31, "digest", ALICE.id), Acl(Permission.READ, "world", "anyone")
        self.assertIsInstance(self.make(*rows), Created)
        shown = self.ask(GetAcl("/n"), ALICE)
        assert isinstance(shown, NodeAcl)
        self.assertEqual((shown.acl, shown.stat.acl_version), (rows, 0))
        hidden = self.ask(GetAcl("/n"), BOB)
        self.assertEqual(hidden.acl, (Acl(31, "digest", "alice:x"), rows[1]))
        changed = self.ask(SetAcl("/n", rows[:1], version=0), ALICE)
        assert isinstance(changed, Stat)
        self.assertEqual((changed.acl_version, changed.version, changed.modified_zxid), (1, 0, changed.created_zxid))
        self.assertIsInstance(self.ask(SetAcl("/n", rows, version=0), ALICE), BadVersion)
        self.assertIsInstance(self.ask(GetAcl("/n"), BOB), NoAuth)
