"""Tests of a coordination server's bounds: against peers that break the protocol, floods, and slow peers."""

from __future__ import annotations

from collections.abc import Callable
from struct import pack

from attrs import define
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from logd.coord.records import Create, Delete, Multi, SetData
from logd.coord.server.wire.handshake import ConnectRequest, ConnectResponse, encode_connect_request
from logd.coord.server.wire.jute import encode_ustring
from logd.coord.server.wire.opcodes import Opcode
from logd.coord.tree.tree import Tree
from logd.interfaces import Timer
from logd.protocol.requests.fields import INT32
from tests.coord.server.rig import Rig, create, read, request, set_data


@define
class BusyClock:
    """A clock that moves on by a millisecond whenever it is read, as if each step took so long."""

    clock: Clock
    passed: float = 0.0

    def seconds(self) -> float:
        """See Clock."""
        self.passed += 0.001
        return self.clock.seconds() + self.passed

    def callLater(self, delay: float, call: Callable[..., object], *args: object) -> Timer:  # noqa: N802
        """See Clock."""
        timer: Timer = self.clock.callLater(delay, call, *args)
        return timer


class HostileTests(SynchronousTestCase):
    """Peers that break the protocol, and floods."""

    def setUp(self) -> None:
        """Start a server with narrow bounds, and open a session that has to live on."""
        self.rig = Rig(connections=5, frames_bytes=20_000, frame_bytes=16_000, pending=10)
        self.good = self.rig.client()

    def tearDown(self) -> None:
        """Check that the session lives."""
        self.assertEqual(self.rig.ask(self.good, Opcode.PING, xid=-2)[0], -2)

    def test_a_bad_frame_closes_its_connection(self) -> None:
        """It may be too large, negative, empty or no request."""
        for size in (16_001, -1, 0, 1 << 30):
            client = self.rig.client()
            client.send(pack(">i", size))
            self.assertTrue(client.closed)
            client.lose()
        client = self.rig.client()
        client.send(request(1, Opcode.CREATE, b"nonsense"))
        self.assertTrue(client.closed)
        self.assertEqual(self.rig.server.counters.protocol_violations, 5)

    def test_an_unknown_first_word_closes_the_connection(self) -> None:
        """A four-letter word is answered, in however many pieces it comes."""
        client = self.rig.connect()
        client.send(b"\0\0\0\1x")
        self.assertTrue(client.closed)
        client = self.rig.connect()
        for each in b"ruok":
            client.send(bytes([each]))
        self.assertEqual((client.transport.value(), client.closed), (b"imok", True))

    def test_incomplete_frames_are_bounded_over_all_connections(self) -> None:
        """The oldest goes, not the largest."""
        clients = [self.rig.client() for _ in range(3)]
        for client, count in zip(clients, (9_000, 1_000, 15_000), strict=True):
            client.send(pack(">i", 16_000) + bytes(count))
        self.assertEqual([client.closed for client in clients], [True, False, False])

    def test_a_connection_without_session_makes_room(self) -> None:
        """The oldest one is closed when a newcomer needs its place."""
        idle = [self.rig.connect() for _ in range(4)]
        newcomer = self.rig.client()
        self.assertEqual([each.closed for each in idle], [True, False, False, False])
        self.assertIsNotNone(newcomer.session)

    def test_one_address_has_a_bounded_number_of_connections(self) -> None:
        """One too many is closed and does not cost the others theirs; a place is free once one goes."""
        rig = Rig(address_connections=2)
        clients = [rig.client(), rig.client()]
        refused = rig.connect()
        self.assertEqual([each.closed for each in (*clients, refused)], [False, False, True])
        for gone in (refused, clients[0]):
            gone.connection.connectionLost()
        self.assertIsNotNone(rig.client().session)
        self.assertTrue(rig.connect().closed)

    def test_a_connection_that_asks_for_no_session_is_closed(self) -> None:
        """It has ten seconds to ask for one."""
        client = self.rig.connect()
        for _ in range(11):
            self.rig.clock.advance(1)
            self.rig.ask(self.good, Opcode.PING, xid=-2)
        self.assertTrue(client.closed)

    def test_a_client_that_takes_no_answers_is_not_read(self) -> None:
        """It costs no more memory, and goes on where it was."""
        client = self.rig.client()
        client.connection.pauseProducing()
        for xid in range(50):
            client.send(request(xid, Opcode.GET_DATA, read("/")))
        self.rig.settle()
        self.assertEqual((client.receive(), client.transport.producerState), ([], "paused"))
        self.assertLessEqual(client.connection.pending, 10)
        client.connection.resumeProducing()
        self.rig.settle()
        self.assertEqual([answer[0] for answer in client.receive()], list(range(50)))
        self.assertEqual(client.transport.producerState, "producing")

    def test_a_client_is_owed_a_bounded_number_of_answers(self) -> None:
        """Nothing more is taken from it meanwhile."""
        client = self.rig.client()
        client.send(b"".join(request(xid, Opcode.CREATE, create(f"/{xid}")) for xid in range(30)))
        self.assertEqual((client.connection.pending, client.transport.producerState), (10, "paused"))
        for _ in range(3):
            self.rig.settle()
        self.assertEqual([answer[0] for answer in client.receive()], list(range(30)))

    def test_large_waiting_requests_stop_the_reading_of_their_client(self) -> None:
        """Others are read, and all are answered."""
        rig = Rig(pending_bytes=8_000)
        greedy, modest = rig.client(), rig.client()
        greedy.send(b"".join(request(xid, Opcode.CREATE, create(f"/{xid}", bytes(2_000))) for xid in range(9)))
        self.assertEqual((greedy.connection.pending, greedy.transport.producerState), (3, "paused"))
        modest.send(request(1, Opcode.CREATE, create("/m", bytes(2_000))))
        self.assertEqual(modest.connection.pending, 1)
        gone = rig.client()
        gone.send(request(1, Opcode.CREATE, create("/g", bytes(2_000))))
        gone.lose()
        for _ in range(4):
            rig.settle()
        self.assertEqual([answer[0] for answer in greedy.receive()], list(range(9)))
        self.assertEqual((len(modest.receive()), rig.server.pending_bytes), (1, 0))

    def test_waiting_lists_of_children_count_by_their_length(self) -> None:
        """They wait in memory for the disk, and may be long."""
        rig = Rig(pending_bytes=20_000)
        client = rig.client()
        for number in range(1_000):
            rig.server.tree.execute(client.connection.session_id, (), Create(f"/{number}"), 0)
        client.send(request(0, Opcode.SET_DATA, set_data("/1", b"")))
        client.send(b"".join(request(xid, Opcode.GET_CHILDREN, read("/")) for xid in range(1, 30)))
        self.assertLess(client.connection.pending, 5)
        for _ in range(30):
            rig.settle()
        self.assertEqual([answer[0] for answer in client.receive()], list(range(30)))

    def test_a_client_with_slow_requests_takes_turns(self) -> None:
        """Others have theirs in between."""
        requests = b"".join(request(xid, Opcode.EXISTS, read("/")) for xid in range(60))
        client, gone = self.rig.client(), self.rig.client()
        self.rig.server.clock = BusyClock(self.rig.clock)
        for each in (client, gone):
            each.send(requests)
            self.assertEqual((len(each.receive()), each.transport.producerState), (16, "paused"))
        gone.lose()
        self.rig.clock.advance(0)
        client.receive()
        self.assertEqual([answer[0] for answer in client.answers], list(range(60)))
        self.assertEqual((client.transport.producerState, gone.receive()), ("producing", []))

    def test_a_connection_has_a_bounded_number_of_identities(self) -> None:
        """It is closed beyond some dozens, so that no access list grows of them."""
        client = self.rig.client()
        for number in range(1_000):
            credentials = b"%d:%s" % (number, b"p" * 10)
            body = pack(f">ii6si{len(credentials)}s", 0, 6, b"digest", len(credentials), credentials)
            client.send(request(-4, Opcode.AUTH, body))
            if client.closed:
                break
        self.assertTrue(50 < number < 200, number)
        self.assertEqual(client.receive()[-1][2], -115)
        client = self.rig.client()
        body = pack(">ii6si10000s", 0, 6, b"digest", 10_000, b"u" * 9_000 + b":p")
        self.assertEqual((self.rig.ask(client, Opcode.AUTH, body, -4)[2], client.closed), (-115, True))

    def test_nothing_is_taken_after_a_sessions_end(self) -> None:
        """A slow disk keeps the connection open, and the client goes on sending."""
        client = self.rig.client()
        client.send(request(1, Opcode.CLOSE_SESSION))
        self.assertEqual(client.transport.producerState, "paused")
        for _ in range(500):
            client.send(request(2, Opcode.CLOSE_SESSION))
        self.assertEqual(self.rig.server.host.held_back, 1)
        self.rig.settle()
        self.assertEqual(([answer[0] for answer in client.receive()], client.closed), ([1], True))

    def test_a_closing_client_has_a_while_to_take_its_answers(self) -> None:
        """They are encoded when it takes them; a client that never does is cut off."""
        self.rig.ask(self.good, Opcode.CREATE, create("/large", bytes(10_000)))
        for taken in (True, False):
            client = self.rig.client()
            client.send(request(1, Opcode.SET_DATA, set_data("/large", bytes(10_000))))
            client.send(b"".join(request(xid, Opcode.GET_DATA, read("/large")) for xid in range(2, 8)))
            client.send(request(8, Opcode.CLOSE_SESSION))
            client.connection.pauseProducing()
            self.rig.settle()
            self.assertEqual((client.receive(), client.closed), ([], False))
            if taken:
                client.connection.resumeProducing()
                self.assertEqual([answer[0] for answer in client.receive()], list(range(1, 9)))
                self.assertEqual((client.transport.disconnected, client.transport.disconnecting), (False, True))
            else:
                for _ in range(6):
                    self.rig.clock.advance(1)
                    self.rig.ask(self.good, Opcode.PING, xid=-2)
                self.assertTrue(client.transport.disconnected)

    def test_watches_have_a_bounded_size(self) -> None:
        """No more can be left until some are gone; reading goes on."""
        rig = Rig(watches_bytes=1_200)
        client = rig.client()
        errors = [rig.ask(client, Opcode.EXISTS, read(f"/{number}", True))[2] for number in range(6)]
        self.assertEqual(errors, [-101, -101, -101, -101, -1, -1])
        self.assertEqual(rig.ask(client, Opcode.GET_DATA, read("/"))[2], 0)
        client.lose()
        again = rig.client()
        self.assertEqual(rig.ask(again, Opcode.EXISTS, read("/a", True))[2], -101)


class FullTreeTests(SynchronousTestCase):
    """As many nodes, or as large ones, as are allowed."""

    def test_a_full_tree_takes_no_more_nodes(self) -> None:
        """Those that exist can be changed and removed, sessions can end, and then there is room again."""
        rig = Rig(nodes=7)
        client, other = rig.client(), rig.client()
        errors = [rig.ask(client, Opcode.CREATE, create(f"/{number}", flags=number % 2))[2] for number in range(5)]
        self.assertEqual(errors, [0, 0, 0, -1, -1])
        self.assertEqual(rig.ask(client, Opcode.SET_DATA, set_data("/0", b"changed"))[2], 0)
        self.assertEqual(rig.ask(other, Opcode.CREATE, create("/more"))[2], -1)
        rig.ask(client, Opcode.CLOSE_SESSION)  # its ephemeral node goes
        self.assertEqual(rig.ask(other, Opcode.CREATE, create("/more"))[2], 0)
        self.assertEqual(rig.ask(other, Opcode.CREATE, create("/again"))[2], -1)
        self.assertEqual(rig.ask(other, Opcode.DELETE, encode_ustring("/0") + INT32.pack(-1))[2], 0)
        self.assertEqual(rig.ask(other, Opcode.CREATE, create("/again"))[2], 0)
        self.assertEqual(rig.client().session is not None, True)

    def test_a_full_tree_takes_no_more_bytes(self) -> None:
        """Small data still replace others, so that positions can be committed."""
        rig = Rig(nodes_bytes=10_000)
        client = rig.client()
        self.assertEqual(rig.ask(client, Opcode.CREATE, create("/a", bytes(5_000)))[2], 0)
        self.assertEqual(rig.ask(client, Opcode.CREATE, create("/b", bytes(5_000)))[2], -1)
        self.assertEqual(rig.ask(client, Opcode.SET_DATA, set_data("/a", bytes(9_000)))[2], -1)
        while rig.ask(client, Opcode.CREATE, create("/n", flags=2))[2] == 0:
            pass
        self.assertLessEqual(rig.server.tree.cost_bytes, 10_000)
        self.assertEqual(rig.ask(client, Opcode.SET_DATA, set_data("/n0000000001", b"1" * 900))[2], 0)
        self.assertEqual(rig.ask(client, Opcode.SET_DATA, set_data("/a", b""))[2], 0)
        self.assertEqual(rig.ask(client, Opcode.CREATE, create("/b", bytes(2_000)))[2], 0)

    def test_the_size_of_the_nodes_is_counted_exactly(self) -> None:
        """It is the same after a restart, and after a multi that was taken back."""
        rig = Rig()
        client = rig.client()
        for number in range(20):
            rig.ask(client, Opcode.CREATE, create(f"/{number}", bytes(number)))
            rig.ask(client, Opcode.SET_DATA, set_data(f"/{number // 2}", bytes(100 - number)))
        rig.ask(client, Opcode.DELETE, encode_ustring("/3") + INT32.pack(-1))
        tree = rig.server.tree
        self.assertEqual(Tree(tree.snapshot()).cost_bytes, tree.cost_bytes)
        before = tree.cost_bytes
        session = next(iter(tree.sessions))
        tree.execute(session, (), Multi((Create("/x", b"1"), SetData("/4", b""), Delete("/none"))), 0)
        self.assertEqual(tree.cost_bytes, before)


class SlowDiskTests(SynchronousTestCase):
    """A disk that takes longer than a session's timeout."""

    def test_a_client_that_is_not_read_keeps_its_session(self) -> None:
        """It is the disk that is slow; all is answered in the end."""
        rig = Rig(pending=3)
        client = rig.client(ConnectRequest(0, 4_000))
        client.send(b"".join(request(xid, Opcode.CREATE, create(f"/{xid}")) for xid in range(3)))
        self.assertEqual(client.transport.producerState, "paused")
        for _ in range(30):
            rig.clock.advance(0.5)
        self.assertFalse(client.closed)
        rig.settle()
        self.assertEqual([answer[0] for answer in client.receive()], [0, 1, 2])

    def test_a_client_that_takes_answers_again_keeps_its_session(self) -> None:
        """It took none for a while, and then it is the disk that is slow."""
        rig = Rig(pending=3)
        client = rig.client(ConnectRequest(0, 4_000))
        client.connection.pauseProducing()
        client.send(b"".join(request(xid, Opcode.CREATE, create(f"/{xid}")) for xid in range(5)))
        for _ in range(4):
            rig.clock.advance(0.5)
        client.connection.resumeProducing()
        for _ in range(15):
            rig.clock.advance(0.5)
        self.assertFalse(client.closed)
        rig.settle()
        rig.settle()
        self.assertEqual([answer[0] for answer in client.receive()], list(range(5)))

    def test_a_client_that_comes_back_meanwhile_keeps_its_session(self) -> None:
        """It gives up a connection without answers, and waits longer for the next than its session may be silent."""
        rig = Rig()
        client, other = rig.client(ConnectRequest(0, 4_000)), rig.client()
        assert client.session is not None
        again = ConnectRequest(0, 4_000, client.session.session_id, client.session.password)
        other.send(request(1, Opcode.CREATE, create("/a")))
        for _ in range(3):
            client.lose()
            client = rig.connect()
            client.send(encode_connect_request(again))
            for _ in range(10):
                rig.clock.advance(0.5)
            self.assertFalse(client.closed)
        rig.settle()
        client.receive()
        self.assertEqual(client.session, ConnectResponse(4_000, again.session_id, again.password))
        client.lose()
        for _ in range(10):
            rig.pass_time(0.5)
        self.assertNotIn(again.session_id, rig.server.tree.sessions)

    def test_newcomers_of_a_slow_disk_are_bounded(self) -> None:
        """Those that come and go count too, and all may come once the disk goes on."""
        rig = Rig(pending_bytes=10_000)
        known = rig.client()
        assert known.session is not None
        wrong = ConnectRequest(0, 10_000, known.session.session_id, bytes(16))
        known.send(request(1, Opcode.CREATE, create("/a")))
        for asked in (ConnectRequest(0, 10_000), wrong) * 50:
            client = rig.connect()
            client.send(encode_connect_request(asked))
            client.lose()
        self.assertEqual((rig.server.host.held_back, rig.server.counters.connections_refused), (10, 91))
        rig.settle()
        rig.settle()
        self.assertEqual((rig.server.host.held_back, len(rig.server.tree.sessions)), (0, 1))
        self.assertIsNotNone(rig.client().session)

    def test_a_client_that_takes_nothing_loses_its_session(self) -> None:
        """It ends when it is due, and the connection with it."""
        rig = Rig()
        client = rig.client(ConnectRequest(0, 4_000))
        client.connection.pauseProducing()
        client.send(b"".join(request(xid, Opcode.GET_DATA, read("/")) for xid in range(3)))
        for _ in range(12):
            rig.clock.advance(0.5)
        self.assertTrue(client.closed)
