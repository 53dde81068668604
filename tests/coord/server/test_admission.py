"""Tests of the admission to a tree that demands credentials: what strangers get, users that are removed, guesses."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from logd.coord.records import OPEN_ACL, Acl, Permission
from logd.coord.server.wire.handshake import ConnectRequest
from logd.coord.server.wire.jute import encode_acl, encode_buffer, encode_ustring
from logd.coord.server.wire.opcodes import Opcode
from logd.protocol.requests.fields import INT32
from logd.security.users import User, zookeeper_digest
from tests.coord.server.rig import RawClient, Rig, create, read, request, set_data

BROKER, NO_AUTH = ("logd", "a-long-random-password"), -102
OWN = zookeeper_digest(*BROKER)
PRIVATE = (Acl(Permission.ALL, "digest", OWN),)


def credentials(user: str, password: str) -> bytes:
    """Return the body of a request that shows credentials."""
    return INT32.pack(0) + encode_ustring("digest") + encode_buffer(f"{user}:{password}".encode())


def made(path: str, data: bytes, acl: tuple[Acl, ...]) -> bytes:
    """Return the body of a create with an access list."""
    return encode_ustring(path) + encode_buffer(data) + encode_acl(acl) + INT32.pack(0)


def user(name: str, password: str) -> bytes:
    """Return the node of a user."""
    return User.of(name, password, bytes).to_json()


class AdmissionTests(SynchronousTestCase):
    """A server that demands credentials, with a broker's client and a user, ann."""

    def setUp(self) -> None:
        """Start it."""
        self.rig = Rig()
        self.rig.server.admission.demand((OWN,))
        self.broker = self.shown(*BROKER)
        for path in ("/security", "/security/users", "/logd", "/logd/security", "/logd/security/users"):
            self.assertEqual(self.rig.ask(self.broker, Opcode.CREATE, create(path))[2], 0)
        self.keep("/security/users/ann", user("ann", "right"))

    def keep(self, path: str, data: bytes, acl: tuple[Acl, ...] = PRIVATE) -> None:
        """Make a node as a broker."""
        self.assertEqual(self.rig.ask(self.broker, Opcode.CREATE, made(path, data, acl))[2], 0)

    def shown(self, name: str, password: str) -> RawClient:
        """Return a client that has shown credentials."""
        client = self.rig.client()
        self.rig.ask(client, Opcode.AUTH, credentials(name, password), -4)
        return client

    def get(self, client: RawClient, path: str = "/security/users") -> int:
        """Return the error that a read is answered with."""
        client.send(request(7, Opcode.GET_DATA, read(path)))
        self.rig.pass_time(1.1)  # the wait after a guess
        return client.receive()[-1][2]

    def test_a_stranger_gets_nothing(self) -> None:
        """Every request but a ping, credentials and the end of its session is refused, and nothing is changed."""
        before = dict(self.rig.server.tree.nodes)
        stranger = self.rig.client()
        bodies = {
            Opcode.CREATE: create("/x"),
            Opcode.CREATE2: create("/x"),
            Opcode.DELETE: encode_ustring("/logd") + INT32.pack(-1),
            Opcode.SET_DATA: set_data("/", b"x"),
            Opcode.EXISTS: read("/"),
            Opcode.GET_DATA: read("/"),
            Opcode.GET_CHILDREN: read("/", True),
            Opcode.GET_CHILDREN2: read("/"),
            Opcode.GET_ACL: encode_ustring("/"),
            Opcode.SET_ACL: encode_ustring("/") + encode_acl(OPEN_ACL) + INT32.pack(-1),
            Opcode.SYNC: encode_ustring("/"),
            Opcode.MULTI: INT32.pack(-1) + b"\x01" + INT32.pack(-1),
            Opcode.SET_WATCHES: bytes(8) + INT32.pack(0) * 3,
            Opcode.SET_WATCHES2: bytes(8) + INT32.pack(0) * 5,
        }
        allowed = {Opcode.PING: -2, Opcode.AUTH: -4, Opcode.CLOSE_SESSION: 1, Opcode.CHECK: 1}
        self.assertEqual({*bodies, *allowed}, set(Opcode))
        for opcode, body in bodies.items():
            answer = self.rig.ask(stranger, opcode, body)
            self.assertEqual((answer[2], answer[3]), (NO_AUTH, b""), opcode)
        self.assertEqual(self.rig.ask(stranger, Opcode.PING, xid=-2)[2], 0)
        self.assertEqual(dict(self.rig.server.tree.nodes), before)
        self.assertEqual(self.rig.ask(stranger, Opcode.CLOSE_SESSION)[2], 0)

    def test_a_stranger_does_not_stay(self) -> None:
        """Its connection ends with the time of a handshake, whatever it sends, and its session at once."""
        sessions = len(self.rig.server.tree.sessions)
        stranger, wrong = self.rig.client(), self.shown("ann", "wrong")
        for _ in range(12):
            self.rig.pass_time(0.9)
            for client in (stranger, wrong, self.broker):
                if not client.closed:
                    client.send(request(-2, Opcode.PING))
        self.assertEqual((stranger.closed, wrong.closed, self.broker.closed), (True, True, False))
        self.assertEqual(len(self.rig.server.tree.sessions), sessions)

    def test_a_stranger_that_left_counts_once(self) -> None:
        """The bytes of the requests that it left without an answer: they bound those of everybody."""
        stranger = self.rig.client()
        self.broker.send(request(2, Opcode.CREATE, create("/busy")))
        stranger.send(b"".join(request(number, Opcode.SYNC, encode_ustring("/")) for number in range(5)))
        self.assertGreater(self.rig.server.pending_bytes, 5 * 1024)
        stranger.lose()
        self.rig.settle()
        self.assertEqual(self.rig.server.pending_bytes, 0)

    def test_brokers_and_users_are_admitted(self) -> None:
        """By the right password alone, at a path of a cluster's own too; access lists decide the rest."""
        self.keep("/logd/security/users/cid", user("cid", "of a cluster"))
        for path in ("/logd/eu", "/logd/eu/prod", "/logd/eu/prod/security", "/logd/eu/prod/security/users"):
            self.keep(path, b"")
        self.keep("/logd/eu/prod/security/users/dee", user("dee", "of a deeper one"))
        self.keep("/logd/eu/prod/security/users/cid", user("cid", "of two clusters"))
        self.assertEqual(self.get(self.shown("dee", "of a deeper one")), 0)
        self.assertEqual(self.get(self.shown("cid", "of two clusters")), 0)
        self.assertEqual(self.get(self.broker, "/security/users/ann"), 0)
        ann = self.shown("ann", "right")
        self.assertEqual((self.get(ann), self.get(ann, "/security/users/ann")), (0, NO_AUTH))
        self.assertEqual(self.get(self.shown("cid", "of a cluster")), 0)
        for name, password in (
            ("ann", "wrong"),
            ("logd", "wrong"),
            ("bob", "right"),
            ("../users/ann", "right"),
            ("", ""),
        ):
            self.assertEqual(self.get(self.shown(name, password)), NO_AUTH, name)
        self.rig.pass_time(20)
        self.assertFalse(ann.closed)

    def test_a_node_that_others_can_change_proves_nobody(self) -> None:
        """Otherwise an admitted user could admit others. Nor does a node that is no user."""
        mine = (Acl(Permission.ALL, "digest", zookeeper_digest("eve", "x")),)
        for name, acl in (("bob", OPEN_ACL), ("cid", mine), ("dan", (*PRIVATE, *mine)), ("fay", PRIVATE)):
            data = user(name, "x") if name != "fay" else b'{"digest": 3}'
            self.keep(f"/security/users/{name}", data, acl)
            self.assertEqual(self.get(self.shown(name, "x")), NO_AUTH, name)

    def test_a_user_that_is_removed_or_changed_is_cut_within_a_second(self) -> None:
        """The others stay."""
        self.keep("/security/users/bob", user("bob", "x"))
        ann, bob, again = self.shown("ann", "right"), self.shown("bob", "x"), self.shown("bob", "x")
        self.assertEqual((self.get(ann), self.get(bob)), (0, 0))
        self.rig.ask(self.broker, Opcode.SET_DATA, set_data("/security/users/ann", user("ann", "new")))
        self.rig.pass_time(0.9)
        self.assertEqual((ann.closed, bob.closed, again.closed), (True, False, False))
        self.rig.ask(self.broker, Opcode.DELETE, encode_ustring("/security/users/bob") + INT32.pack(-1))
        self.rig.pass_time(0.9)
        self.assertEqual((bob.closed, again.closed, self.broker.closed), (True, True, False))
        self.assertEqual(self.get(self.shown("ann", "new")), 0)

    def test_each_guess_takes_a_second_of_its_connection(self) -> None:
        """Whatever is sent behind it waits."""
        client = self.rig.client()
        for number in range(100):
            client.send(request(-4, Opcode.AUTH, credentials("ann", f"{number}")))
        client.send(request(-4, Opcode.AUTH, credentials("ann", "right")))
        for guesses in range(1, 9):
            self.assertEqual(len(client.receive()), 1, guesses)
            self.rig.pass_time(1.0)
        self.rig.pass_time(2.0)
        self.assertTrue(client.closed)

    def test_a_session_that_comes_back_has_to_prove_itself_again(self) -> None:
        """It is not ended for that by whoever knows its password."""
        ann = self.shown("ann", "right")
        assert ann.session is not None
        ann.lose()
        back = self.rig.client(ConnectRequest(0, 10_000, ann.session.session_id, ann.session.password))
        self.assertEqual(self.get(back), NO_AUTH)
        back.lose()
        self.rig.settle()
        self.assertIn(ann.session.session_id, self.rig.server.tree.sessions)
        back = self.rig.client(ConnectRequest(0, 10_000, ann.session.session_id, ann.session.password))
        self.rig.ask(back, Opcode.AUTH, credentials("ann", "right"), -4)
        self.assertEqual(self.get(back), 0)

    def test_words_tell_other_machines_nothing_but_life(self) -> None:
        """Monitors of the same machine see the figures."""
        for word, shown in ((b"ruok", True), (b"isro", True), (b"cons", False), (b"mntr", False), (b"envi", False)):
            self.assertEqual(bool(self.rig.server.answer_word(word, "10.0.0.9")), shown, word)
            self.assertTrue(self.rig.server.answer_word(word, "127.0.0.1"), word)

    def test_without_a_demand_all_is_open(self) -> None:
        """As on loopback."""
        rig = Rig()
        client = rig.client()
        self.assertEqual(rig.ask(client, Opcode.CREATE, create("/x"))[2], 0)
        idle = rig.client(ConnectRequest(0, 40_000))
        rig.pass_time(15)
        self.assertFalse(idle.closed)
        self.assertTrue(rig.server.answer_word(b"cons", "10.0.0.9"))
