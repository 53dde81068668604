"""Tests of the server on connections in memory: sessions, order, and disks that fail."""

from __future__ import annotations

from struct import pack

from twisted.trial.unittest import SynchronousTestCase

from logd.coord.server.storage.durable_tree import SNAPSHOT_RETRY_SECONDS
from logd.coord.server.storage.folder import changes_name
from logd.coord.server.storage.tree_reopening import FIRST_SECONDS, LONGEST_SECONDS
from logd.coord.server.wire.handshake import ConnectRequest, ConnectResponse, encode_connect_request
from logd.coord.server.wire.opcodes import Opcode
from tests.coord.server.rig import FOLDER, RawClient, Rig, create, read, request, set_data


def come_back(client: RawClient, password: bytes | None = None, last_zxid: int = 0) -> ConnectRequest:
    """Return the connect request of a client that has a session."""
    assert client.session is not None
    return ConnectRequest(last_zxid, 10_000, client.session.session_id, password or client.session.password)


class SessionTests(SynchronousTestCase):
    """Sessions that begin, are resumed, and end."""

    def setUp(self) -> None:
        """Start a server."""
        self.rig = Rig()

    def test_a_client_gets_its_timeout_within_the_bounds(self) -> None:
        """The bounds are 4 and 40 seconds here."""
        for asked, granted in ((10_000, 10_000), (1, 4_000), (1 << 30, 40_000)):
            session = self.rig.client(ConnectRequest(0, asked)).session
            assert session is not None
            self.assertEqual((session.timeout_ms, len(session.password)), (granted, 16))

    def test_a_session_is_granted_once_it_is_on_the_disk(self) -> None:
        """A crash must not take back a session that a client knows."""
        client = self.rig.connect()
        client.send(encode_connect_request(ConnectRequest(0, 10_000)))
        self.rig.clock.advance(0)
        self.assertEqual(client.transport.value(), b"")
        self.rig.settle()
        self.assertNotEqual(client.transport.value(), b"")

    def test_a_client_comes_back_with_its_password(self) -> None:
        """It finds its session and ephemeral nodes again, also after a restart."""
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

    def test_a_wrong_password_gets_no_session(self) -> None:
        """A session that is over is refused in the same way, and the connection is closed."""
        first = self.rig.client()
        wrong = self.rig.client(come_back(first, bytes(16)))
        self.assertEqual((wrong.session, wrong.closed), (ConnectResponse(), True))
        self.rig.ask(first, Opcode.CLOSE_SESSION)
        late = self.rig.client(come_back(first))
        self.assertEqual((late.session, late.closed), (ConnectResponse(), True))

    def test_a_session_has_one_connection(self) -> None:
        """The older one is closed."""
        first = self.rig.client()
        second = self.rig.client(come_back(first))
        self.assertTrue(first.closed)
        self.assertEqual(self.rig.ask(second, Opcode.SYNC, pack(">i1s", 1, b"/"))[2], 0)

    def test_a_client_that_has_seen_more_is_sent_away(self) -> None:
        """It would go back in time on this server."""
        client = self.rig.client(ConnectRequest(1 << 40, 10_000))
        self.assertEqual((client.session, client.closed), (None, True))

    def test_a_silent_session_expires_with_its_nodes(self) -> None:
        """A session that pings lives on and is told of the end of those nodes."""
        silent, watcher = self.rig.client(ConnectRequest(0, 4_000)), self.rig.client(ConnectRequest(0, 4_000))
        self.rig.ask(silent, Opcode.CREATE, create("/e", flags=1))
        self.assertEqual(self.rig.ask(watcher, Opcode.EXISTS, read("/e", True))[2], 0)
        for _ in range(12):
            self.rig.clock.advance(0.5)
            self.rig.ask(watcher, Opcode.PING, xid=-2)
        self.assertEqual((silent.closed, watcher.closed), (True, False))
        self.assertIn((-1, 4, 0), [answer[:3] for answer in watcher.answers])
        self.assertEqual(self.rig.ask(watcher, Opcode.EXISTS, read("/e"))[2], -101)

    def test_a_standstill_expires_no_session(self) -> None:
        """Each client has its chance after a minute in which the process did not run."""
        client = self.rig.client(ConnectRequest(0, 4_000))
        self.rig.clock.advance(60)
        self.rig.clock.advance(0)
        self.assertEqual(self.rig.ask(client, Opcode.PING, xid=-2)[0], -2)
        self.assertFalse(client.closed)

    def test_a_session_that_no_client_knows_ends_at_once(self) -> None:
        """Its connection was lost before it was granted."""
        client = self.rig.connect()
        client.send(encode_connect_request(ConnectRequest(0, 10_000)))
        client.lose()
        self.rig.settle()
        self.assertEqual(len(self.rig.server.tree.sessions), 0)

    def test_a_digest_is_taken_and_another_scheme_refused(self) -> None:
        """The connection is closed then."""
        client = self.rig.client()
        digest = pack(">ii6si3s", 0, 6, b"digest", 3, b"u:p")
        self.assertEqual(self.rig.ask(client, Opcode.AUTH, digest, -4)[:3], (-4, 0, 0))
        unknown = pack(">ii6si3s", 0, 6, b"sorcer", 3, b"u:p")
        self.assertEqual((self.rig.ask(client, Opcode.AUTH, unknown, -4)[2], client.closed), (-115, True))


class OrderTests(SynchronousTestCase):
    """The order of answers and events."""

    def setUp(self) -> None:
        """Start a server, and connect two clients."""
        self.rig = Rig()
        self.first, self.second = self.rig.client(), self.rig.client()

    def test_a_change_is_answered_once_it_is_on_the_disk(self) -> None:
        """It is not shown to another client before that either."""
        self.first.send(request(1, Opcode.CREATE, create("/a")))
        self.second.send(request(1, Opcode.EXISTS, read("/a")))
        self.rig.clock.advance(0)
        self.assertEqual(self.first.receive() + self.second.receive(), [])
        self.rig.settle()
        self.assertEqual([self.first.receive()[0][2], self.second.receive()[0][2]], [0, 0])

    def test_an_event_comes_before_the_data(self) -> None:
        """Any answer that shows the change comes behind the event."""
        self.rig.ask(self.first, Opcode.CREATE, create("/a", b"old"))
        self.rig.ask(self.second, Opcode.GET_DATA, read("/a", True))
        self.first.send(request(2, Opcode.SET_DATA, set_data("/a", b"new")))
        self.second.send(request(2, Opcode.GET_DATA, read("/a")))
        self.rig.settle()
        event, answer = self.second.receive()
        self.assertEqual((event[:3], answer[0], answer[3][:7]), ((-1, 4, 0), 2, pack(">i3s", 3, b"new")))

    def test_answers_come_in_the_order_of_requests(self) -> None:
        """Requests that are refused are answered in their turn too."""
        frames = [request(1, Opcode.CREATE, create("/a")), request(2, 999), request(3, Opcode.EXISTS, read("/a"))]
        self.first.send(b"".join(frames))
        self.rig.settle()
        self.assertEqual([(xid, error) for xid, _, error, _ in self.first.receive()], [(1, 0), (2, -6), (3, 0)])

    def test_the_end_of_a_session_is_answered_last(self) -> None:
        """The connection closes behind it."""
        self.first.send(request(1, Opcode.CREATE, create("/a")) + request(2, Opcode.CLOSE_SESSION))
        self.rig.settle()
        self.assertEqual([answer[0] for answer in self.first.receive()], [1, 2])
        self.assertTrue(self.first.transport.disconnecting)


class FailureTests(SynchronousTestCase):
    """A disk that fails."""

    def test_clients_wait_for_a_full_disk(self) -> None:
        """New sessions wait too; with room all are answered, in the same sessions."""
        rig = Rig()
        client = rig.client()
        rig.files.room = 0
        client.send(request(1, Opcode.CREATE, create("/a")))
        newcomer = rig.connect()
        newcomer.send(encode_connect_request(ConnectRequest(0, 10_000)))
        for _ in range(3):
            rig.pass_time(1.0)
        self.assertEqual((client.receive(), client.closed, newcomer.receive(), newcomer.closed), ([], False, [], False))
        self.assertIn("no space left", str(rig.server.problem))
        rig.files.room = None
        rig.pass_time(1.0)
        newcomer.receive()
        self.assertEqual((client.receive()[0][2], newcomer.session is not None), (0, True))
        self.assertEqual((rig.server.problem, rig.failures), (None, []))

    def test_a_failed_sync_closes_connections_and_recovers(self) -> None:
        """No client is told of a change that may not last; the tree is served again once the disk is well."""
        rig = Rig()
        client, other = rig.client(), rig.client()
        rig.ask(client, Opcode.CREATE, create("/e", flags=1))
        rig.files.errors["sync_data"] = [OSError(5, "input/output error")] * 2
        client.send(request(1, Opcode.CREATE, create("/a")))
        rig.settle()
        self.assertEqual((client.receive(), client.closed, other.closed), ([], True, True))
        self.assertEqual((len(rig.failures), rig.server.serving, rig.server.error), (1, False, rig.failures[0]))
        self.assertTrue(rig.connect().closed)
        self.assertEqual(rig.server.answer_word(b"ruok"), b"")
        rig.pass_time(FIRST_SECONDS)
        self.assertFalse(rig.server.serving)  # the disk is not well yet
        self.assertIn("input/output error", str(rig.server.problem))
        rig.pass_time(LONGEST_SECONDS)
        self.assertEqual((rig.server.serving, rig.server.problem), (True, None))
        again = rig.client(come_back(client))
        assert client.session is not None and again.session is not None
        self.assertEqual(again.session.session_id, client.session.session_id)
        self.assertEqual(rig.ask(again, Opcode.EXISTS, read("/e"))[2], 0)

    def test_a_tree_that_cannot_be_recovered_is_served_once_mended(self) -> None:
        """It needs no new start, and the problem is reported until then."""
        rig = Rig()
        client = rig.client()
        rig.ask(client, Opcode.CREATE, create("/a"))
        rig.files.errors["sync_data"] = [OSError(5, "input/output error")]
        client.send(request(1, Opcode.CREATE, create("/b")))
        rig.settle()
        path = f"{FOLDER}/{changes_name(0)}"
        file = rig.files.open(path)
        byte = file.read_at(100, 1)
        file.write_at(100, bytes([byte[0] ^ 1]))
        rig.pass_time(FIRST_SECONDS)
        self.assertIn("damaged at byte", str(rig.server.problem))
        file.write_at(100, byte)
        rig.pass_time(LONGEST_SECONDS)
        self.assertEqual(rig.ask(rig.client(come_back(client)), Opcode.EXISTS, read("/a"))[2], 0)

    def test_a_tree_damaged_at_its_start_is_served_once_mended(self) -> None:
        """A broker starts its own tree so: its logs are served meanwhile."""
        rig = Rig()
        client = rig.client()
        rig.ask(client, Opcode.CREATE, create("/a"))
        rig.files.restart(power_lost=False)
        file = rig.files.open(f"{FOLDER}/{changes_name(0)}")
        byte = file.read_at(100, 1)
        file.write_at(100, bytes([byte[0] ^ 1]))
        rig.start(when_sound=True)
        self.assertFalse(rig.server.serving)
        self.assertIn("damaged at byte", str(rig.server.problem))
        file.write_at(100, byte)
        rig.pass_time(LONGEST_SECONDS)
        self.assertEqual(rig.ask(rig.client(come_back(client)), Opcode.EXISTS, read("/a"))[2], 0)

    def test_a_stop_ends_the_attempts_to_recover(self) -> None:
        """One that is under way lets go of the folder."""
        for works in (False, True):
            rig = Rig()
            rig.files.errors["sync_data"] = [OSError(5, "input/output error")]
            rig.client()
            if works:
                rig.clock.advance(FIRST_SECONDS)
                self.assertEqual(len(rig.threads.works), 1)
            stopped = rig.server.stop()
            rig.settle()
            self.successResultOf(stopped)
            self.assertEqual((rig.clock.getDelayedCalls(), rig.files.locks), ([], {}))

    def test_a_snapshot_without_room_is_tried_again(self) -> None:
        """The next attempt comes in a minute, and nothing is left behind meanwhile."""
        rig = Rig(snapshot_bytes=300)
        client = rig.client()
        rig.files.errors["rename"] = [OSError(28, "no space left on device")]
        for number in range(3):
            rig.ask(client, Opcode.CREATE, create(f"/{number}", bytes(100)))
        self.assertEqual((rig.server.storage.snapshots, rig.server.storage.snapshot_error is None), (0, False))
        rig.settle()
        rig.ask(client, Opcode.CREATE, create("/more"))
        self.assertEqual(rig.server.storage.snapshots, 0)
        for _ in range(12):
            rig.pass_time(SNAPSHOT_RETRY_SECONDS / 12)
            client.send(request(-2, Opcode.PING))
        rig.ask(client, Opcode.CREATE, create("/later"))
        self.assertEqual((rig.server.storage.snapshots, rig.server.storage.snapshot_error), (1, None))
        self.assertEqual([name for name in rig.files.list(FOLDER) if name.endswith(".tmp")], [])

    def test_a_stop_keeps_sessions_and_nodes(self) -> None:
        """The next start finds them, and the folder is free for it."""
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


class FourLetterWordTests(SynchronousTestCase):
    """The four-letter words of ZooKeeper's operators."""

    def test_each_word_is_answered_in_zookeepers_form(self) -> None:
        """An unknown one is told so."""
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
