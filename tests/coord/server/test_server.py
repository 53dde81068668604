"""Tests of the server on connections in memory: sessions, order, bounds, and what a disk that fails does to it."""

from __future__ import annotations

from struct import pack

from twisted.trial.unittest import SynchronousTestCase

from logd.coord.server.handshake import ConnectRequest, ConnectResponse, encode_connect_request
from logd.coord.server.opcodes import Opcode
from tests.coord.server.rig import RawClient, Rig, create, read, request, set_data


def come_back(client: RawClient, password: bytes | None = None, last_zxid: int = 0) -> ConnectRequest:
    """What a client says that has a session."""
    assert client.session is not None
    return ConnectRequest(last_zxid, 10_000, client.session.session_id, password or client.session.password)


class SessionTests(SynchronousTestCase):
    """Beginning, coming back, ending."""

    def setUp(self) -> None:
        """A server."""
        self.rig = Rig()

    def test_timeouts(self) -> None:
        """A client gets the timeout it asks for, within the bounds."""
        for asked, granted in ((10_000, 10_000), (1, 4_000), (1 << 30, 40_000)):
            session = self.rig.client(ConnectRequest(0, asked)).session
            assert session is not None
            self.assertEqual((session.timeout_ms, len(session.password)), (granted, 16))

    def test_granted_once_lasting(self) -> None:
        """A client hears of its session when it is on the disk, and not before."""
        client = self.rig.connect()
        client.send(encode_connect_request(ConnectRequest(0, 10_000)))
        self.rig.clock.advance(0)
        self.assertEqual(client.transport.value(), b"")
        self.rig.settle()
        self.assertNotEqual(client.transport.value(), b"")

    def test_come_back(self) -> None:
        """With its password a client comes back to its session and ephemerals, also after a restart."""
        first = self.rig.client()
        self.rig.ask(first, Opcode.CREATE, create("/e", flags=1))
        first.lose()
        again = self.rig.client(come_back(first))
        self.assertEqual(again.session, first.session)
        self.rig.files.restart(power_lost=True)
        self.rig.start()
        again = self.rig.client(come_back(first))
        self.assertEqual(again.session, first.session)
        self.assertEqual(self.rig.ask(again, Opcode.EXISTS, read("/e"))[2], 0)

    def test_refused(self) -> None:
        """A wrong password, or a session that is over, is answered with none, and the connection is closed."""
        first = self.rig.client()
        wrong = self.rig.client(come_back(first, bytes(16)))
        self.assertEqual((wrong.session, wrong.closed), (ConnectResponse(), True))
        self.rig.ask(first, Opcode.CLOSE_SESSION)
        late = self.rig.client(come_back(first))
        self.assertEqual((late.session, late.closed), (ConnectResponse(), True))

    def test_moved(self) -> None:
        """A session has one connection: the older one is closed."""
        first = self.rig.client()
        second = self.rig.client(come_back(first))
        self.assertTrue(first.closed)
        self.assertEqual(self.rig.ask(second, Opcode.SYNC, pack(">i1s", 1, b"/"))[2], 0)

    def test_client_from_the_future(self) -> None:
        """A client that has seen more than there is here is sent away: here it would go back in time."""
        client = self.rig.client(ConnectRequest(1 << 40, 10_000))
        self.assertEqual((client.session, client.closed), (None, True))

    def test_expiry(self) -> None:
        """A session that is not heard of ends with its ephemerals; one that pings lives."""
        silent, watcher = self.rig.client(ConnectRequest(0, 4_000)), self.rig.client(ConnectRequest(0, 4_000))
        self.rig.ask(silent, Opcode.CREATE, create("/e", flags=1))
        self.assertEqual(self.rig.ask(watcher, Opcode.EXISTS, read("/e", True))[2], 0)
        for _ in range(12):
            self.rig.clock.advance(0.5)
            self.rig.ask(watcher, Opcode.PING, xid=-2)
        self.assertEqual((silent.closed, watcher.closed), (True, False))
        self.assertIn((-1, 4, 0), [answer[:3] for answer in watcher.answers])
        self.assertEqual(self.rig.ask(watcher, Opcode.EXISTS, read("/e"))[2], -101)

    def test_standing_still_does_not_count(self) -> None:
        """After a minute in which the process stood still everybody has their chance."""
        client = self.rig.client(ConnectRequest(0, 4_000))
        self.rig.clock.advance(60)
        self.rig.clock.advance(0)
        self.assertEqual(self.rig.ask(client, Opcode.PING, xid=-2)[0], -2)
        self.assertFalse(client.closed)

    def test_lost_while_opening(self) -> None:
        """A session that nobody was told of ends at once."""
        client = self.rig.connect()
        client.send(encode_connect_request(ConnectRequest(0, 10_000)))
        client.lose()
        self.rig.settle()
        self.assertEqual(len(self.rig.server.tree.sessions), 0)

    def test_authentication(self) -> None:
        """A digest is taken; a scheme that is not known is refused, and the connection closed."""
        client = self.rig.client()
        digest = pack(">ii6si3s", 0, 6, b"digest", 3, b"u:p")
        self.assertEqual(self.rig.ask(client, Opcode.AUTH, digest, -4)[:3], (-4, 0, 0))
        unknown = pack(">ii6si3s", 0, 6, b"sorcer", 3, b"u:p")
        self.assertEqual((self.rig.ask(client, Opcode.AUTH, unknown, -4)[2], client.closed), (-115, True))


class OrderTests(SynchronousTestCase):
    """What is told when."""

    def setUp(self) -> None:
        """A server, and two clients."""
        self.rig = Rig()
        self.first, self.second = self.rig.client(), self.rig.client()

    def test_answered_once_lasting(self) -> None:
        """No answer leaves before the change is on the disk, nor one that shows it to somebody else."""
        self.first.send(request(1, Opcode.CREATE, create("/a")))
        self.second.send(request(1, Opcode.EXISTS, read("/a")))
        self.rig.clock.advance(0)
        self.assertEqual(self.first.receive() + self.second.receive(), [])
        self.rig.settle()
        self.assertEqual([self.first.receive()[0][2], self.second.receive()[0][2]], [0, 0])

    def test_event_before_data(self) -> None:
        """A watch's event comes before any answer that shows what it tells of."""
        self.rig.ask(self.first, Opcode.CREATE, create("/a", b"old"))
        self.rig.ask(self.second, Opcode.GET_DATA, read("/a", True))
        self.first.send(request(2, Opcode.SET_DATA, set_data("/a", b"new")))
        self.second.send(request(2, Opcode.GET_DATA, read("/a")))
        self.rig.settle()
        event, answer = self.second.receive()
        self.assertEqual((event[:3], answer[0], answer[3][:7]), ((-1, 4, 0), 2, pack(">i3s", 3, b"new")))

    def test_requests_in_order(self) -> None:
        """Answers come in the order of the requests, those that are refused too."""
        frames = [request(1, Opcode.CREATE, create("/a")), request(2, 999), request(3, Opcode.EXISTS, read("/a"))]
        self.first.send(b"".join(frames))
        self.rig.settle()
        self.assertEqual([(xid, error) for xid, _, error, _ in self.first.receive()], [(1, 0), (2, -6), (3, 0)])

    def test_close(self) -> None:
        """The end of a session is answered behind what was asked before, then the connection closes."""
        self.first.send(request(1, Opcode.CREATE, create("/a")) + request(2, Opcode.CLOSE_SESSION))
        self.rig.settle()
        self.assertEqual([answer[0] for answer in self.first.receive()], [1, 2])
        self.assertTrue(self.first.transport.disconnecting)


class FailureTests(SynchronousTestCase):
    """A disk that fails."""

    def test_failed_sync(self) -> None:
        """Nobody is told of a change that may not last; every connection closes, and nothing is served any more."""
        rig = Rig()
        client, other = rig.client(), rig.client()
        rig.files.errors["sync_data"] = [OSError(5, "input/output error")]
        client.send(request(1, Opcode.CREATE, create("/a")))
        rig.settle()
        self.assertEqual((client.receive(), client.closed, other.closed), ([], True, True))
        self.assertEqual((len(rig.failures), rig.server.serving, rig.server.error), (1, False, rig.failures[0]))
        self.assertTrue(rig.connect().closed)
        self.assertEqual(rig.server.answer_word(b"ruok"), b"")

    def test_stop(self) -> None:
        """A stop leaves sessions and nodes to the next start, and lets go of the folder."""
        rig = Rig()
        client = rig.client()
        rig.ask(client, Opcode.CREATE, create("/e", flags=1))
        silent, refused = rig.connect(), rig.connect()
        refused.send(b"ruok")
        stopped = rig.server.stop()
        rig.settle()
        self.successResultOf(stopped)
        self.assertTrue(client.closed)
        for each in (client, silent, refused):
            each.lose()
        self.assertEqual(rig.clock.getDelayedCalls(), [])
        rig.start()
        self.assertEqual(rig.ask(rig.client(come_back(client)), Opcode.EXISTS, read("/e"))[2], 0)


class HostileTests(SynchronousTestCase):
    """Peers that break the protocol, and floods."""

    def setUp(self) -> None:
        """A server with narrow bounds, and a session that has to live on."""
        self.rig = Rig(connections=5, frames_bytes=20_000, frame_bytes=16_000, pending=10)
        self.good = self.rig.client()

    def tearDown(self) -> None:
        """It did."""
        self.assertEqual(self.rig.ask(self.good, Opcode.PING, xid=-2)[0], -2)

    def test_frames(self) -> None:
        """A frame that is too large, negative, empty or no request closes its connection."""
        for size in (16_001, -1, 0, 1 << 30):
            client = self.rig.client()
            client.send(pack(">i", size))
            self.assertTrue(client.closed)
            client.lose()
        client = self.rig.client()
        client.send(request(1, Opcode.CREATE, b"nonsense"))
        self.assertTrue(client.closed)
        self.assertEqual(self.rig.server.counters.protocol_violations, 5)

    def test_first_words(self) -> None:
        """So does anything else that comes first, but for a four-letter word, in however many pieces."""
        client = self.rig.connect()
        client.send(b"\0\0\0\1x")
        self.assertTrue(client.closed)
        client = self.rig.connect()
        for each in b"ruok":
            client.send(bytes([each]))
        self.assertEqual((client.transport.value(), client.closed), (b"imok", True))

    def test_incomplete_frames(self) -> None:
        """What is kept of incomplete frames is bounded over all connections: who has the most goes."""
        clients = [self.rig.client() for _ in range(3)]
        for client, count in zip(clients, (9_000, 1_000, 15_000), strict=True):
            client.send(pack(">i", 16_000) + bytes(count))
        self.assertEqual([client.closed for client in clients], [False, False, True])

    def test_connections(self) -> None:
        """Who has no session makes room for newcomers; with all taken, the newcomer goes."""
        idle = [self.rig.connect() for _ in range(4)]
        newcomer = self.rig.client()
        self.assertEqual([each.closed for each in idle], [True, False, False, False])
        self.assertIsNotNone(newcomer.session)

    def test_no_handshake(self) -> None:
        """Who does not ask for a session is closed in time."""
        client = self.rig.connect()
        for _ in range(11):
            self.rig.clock.advance(1)
            self.rig.ask(self.good, Opcode.PING, xid=-2)
        self.assertTrue(client.closed)

    def test_takes_no_answers(self) -> None:
        """A client that does not take its answers is not read any more, costs no more, and goes on where it was."""
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

    def test_too_many_requests(self) -> None:
        """While a client is owed as many answers as are allowed, nothing more is taken from it."""
        client = self.rig.client()
        client.send(b"".join(request(xid, Opcode.CREATE, create(f"/{xid}")) for xid in range(30)))
        self.assertEqual((client.connection.pending, client.transport.producerState), (10, "paused"))
        for _ in range(3):
            self.rig.settle()
        self.assertEqual([answer[0] for answer in client.receive()], list(range(30)))

    def test_waiting_bytes(self) -> None:
        """Who has large requests waiting is not read while there are many of them; others are, and all are answered."""
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

    def test_many_credentials(self) -> None:
        """A connection is known by some dozens of identities at most: then it is closed, and no list grows of them."""
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

    def test_behind_the_end(self) -> None:
        """Behind the end of its session nothing more is taken of a client, however slow the disk is."""
        client = self.rig.client()
        client.send(request(1, Opcode.CLOSE_SESSION))
        self.assertEqual(client.transport.producerState, "paused")
        for _ in range(500):
            client.send(request(2, Opcode.CLOSE_SESSION))
        self.assertEqual(self.rig.server.host.held_back, 1)
        self.rig.settle()
        self.assertEqual(([answer[0] for answer in client.receive()], client.closed), ([1], True))

    def test_takes_no_farewell(self) -> None:
        """What is owed to a client that closes its session is made bytes of when it is taken; not for ever."""
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
                self.assertEqual((client.transport.aborted, bool(client.transport.disconnecting)), (False, True))
            else:
                for _ in range(6):
                    self.rig.clock.advance(1)
                    self.rig.ask(self.good, Opcode.PING, xid=-2)
                self.assertTrue(client.transport.aborted)

    def test_watches(self) -> None:
        """When watches take what is allowed, no more can be left until some are gone; reading goes on."""
        rig = Rig(watches_bytes=1_200)
        client = rig.client()
        errors = [rig.ask(client, Opcode.EXISTS, read(f"/{number}", True))[2] for number in range(6)]
        self.assertEqual(errors, [-101, -101, -101, -101, -1, -1])
        self.assertEqual(rig.ask(client, Opcode.GET_DATA, read("/"))[2], 0)
        client.lose()
        again = rig.client()
        self.assertEqual(rig.ask(again, Opcode.EXISTS, read("/a", True))[2], -101)


class SlowDiskTests(SynchronousTestCase):
    """A disk that takes longer than a session's timeout."""

    def test_not_read(self) -> None:
        """A client that is not read since too many answers wait for the disk keeps its session, and is answered."""
        rig = Rig(pending=3)
        client = rig.client(ConnectRequest(0, 4_000))
        client.send(b"".join(request(xid, Opcode.CREATE, create(f"/{xid}")) for xid in range(3)))
        self.assertEqual(client.transport.producerState, "paused")
        for _ in range(30):
            rig.clock.advance(0.5)
        self.assertFalse(client.closed)
        rig.settle()
        self.assertEqual([answer[0] for answer in client.receive()], [0, 1, 2])

    def test_takes_nothing(self) -> None:
        """A client that takes no answers loses its session when it is due, and its connection with it."""
        rig = Rig()
        client = rig.client(ConnectRequest(0, 4_000))
        client.connection.pauseProducing()
        client.send(b"".join(request(xid, Opcode.GET_DATA, read("/")) for xid in range(3)))
        for _ in range(12):
            rig.clock.advance(0.5)
        self.assertTrue(client.closed)


class WordTests(SynchronousTestCase):
    """Four-letter words."""

    def test_words(self) -> None:
        """Each is answered in ZooKeeper's form; an unknown one says so."""
        rig = Rig()
        client = rig.client()
        rig.ask(client, Opcode.CREATE, create("/e", flags=1))
        word = rig.server.answer_word
        self.assertEqual((word(b"ruok"), word(b"isro")), (b"imok", b"rw"))
        self.assertIn(b"Zookeeper version: 3.9", word(b"srvr"))
        self.assertIn(b"Node count: 5\n", word(b"srvr"))
        self.assertIn(b"sid=0x1", word(b"stat"))
        self.assertIn(b"zookeeper.version=3.9", word(b"envi"))
        figures = dict(line.split("\t") for line in word(b"mntr").decode().splitlines())
        self.assertEqual((figures["zk_ephemerals_count"], figures["zk_global_sessions"]), ("1", "1"))
        self.assertGreater(int(figures["zk_max_file_descriptor_count"]), int(figures["zk_open_file_descriptor_count"]))
        rig.ask(client, Opcode.GET_DATA, read("/e", True))
        self.assertEqual(word(b"wchs"), b"1 connections watching 1 paths\nTotal watches:1\n")
        self.assertIn(b"maxSessionTimeout=40000\n", word(b"conf"))
        self.assertIn(b"not in the whitelist", word(b"kill"))
