"""Tests of requests for very many watches, which are executed in parts, and of other large requests."""

from __future__ import annotations

from collections.abc import Sequence
from struct import pack

from twisted.trial.unittest import SynchronousTestCase

from logd.coord.records import EventType
from logd.coord.server.wire.handshake import ConnectRequest
from logd.coord.server.wire.jute import encode_ustring, encode_ustrings
from logd.coord.server.wire.opcodes import Opcode
from logd.protocol.requests.fields import INT32
from tests.coord.server.rig import RawClient, Rig, create, read, request, set_data
from tests.coord.server.test_bounds import BusyClock

#: The xid of Java's clients.
XID = -8
#: The paths of a request that is executed in several parts, and the most that one part can have.
COUNT = 3_000
PART = 500
MISSING = [f"/none/{number}" for number in range(COUNT)]


def set_watches(*lists: Sequence[str], seen: int = 0, opcode: Opcode = Opcode.SET_WATCHES) -> bytes:
    """Return a setWatches request for watches on data, on paths that did not exist, and on children."""
    return request(XID, opcode, pack(">q", seen) + b"".join(map(encode_ustrings, lists)))


def xids(client: RawClient) -> list[int]:
    """Return the xids of all that has come by now."""
    client.receive()
    return [answer[0] for answer in client.answers]


def events(client: RawClient) -> list[tuple[int, str]]:
    """Return the type and path of every event that has come by now."""
    client.receive()
    bodies = [body for xid, _, _, body in client.answers if xid == -1]
    return [(INT32.unpack_from(body)[0], body[12:].decode()) for body in bodies]


class ManyWatchesTests(SynchronousTestCase):
    """A client that has lost its connection asks for all of its watches again."""

    def setUp(self) -> None:
        """Start a server, and connect the client and another one."""
        self.rig = Rig()
        self.client, self.other = self.rig.client(), self.rig.client()

    def finish(self) -> None:
        """Let as many turns pass as the request takes at most."""
        for _ in range(COUNT // PART + 5):
            self.rig.settle()

    def test_others_are_served_in_between(self) -> None:
        """All events come before the answer, and that before the answer to a later request."""
        came: list[int] = []

        def ping() -> None:
            came.append(len(self.client.receive()))
            self.other.send(request(-2, Opcode.PING))
            if came[-1]:
                self.rig.clock.callLater(0, ping)

        self.client.send(set_watches(MISSING, (), MISSING) + request(9, Opcode.EXISTS, read("/")))
        ping()
        self.rig.settle()
        self.assertEqual(came, [PART] * (2 * COUNT // PART) + [2, 0])
        self.assertEqual(xids(self.other), [-2] * len(came))
        self.assertEqual(xids(self.client), [-1] * 2 * COUNT + [XID, 9])
        self.assertEqual(events(self.client), [(EventType.DELETED, path) for path in MISSING] * 2)
        self.assertEqual((self.client.answers[-2][2], self.rig.server.pending_bytes), (0, 0))
        self.assertEqual(self.client.transport.producerState, "producing")

    def test_watches_without_events_take_turns_too(self) -> None:
        """They are left a part at a time."""
        watches = self.rig.server.tree.watches.data
        self.client.send(set_watches((), MISSING, ()))
        self.assertTrue(0 < len(watches) <= PART, len(watches))
        self.finish()
        self.assertEqual((len(watches), xids(self.client)), (COUNT, [XID]))

    def test_a_peer_that_takes_nothing_stops_the_rest(self) -> None:
        """The events of one part wait for it, and it gets all in the end."""
        self.client.send(set_watches(MISSING, (), ()))
        self.client.connection.pauseProducing()
        self.finish()
        self.assertLessEqual(self.client.connection.pending, PART)
        came = len(events(self.client))
        self.assertLessEqual(came, PART)
        self.assertEqual(self.rig.server.pending_bytes, 0)
        self.client.connection.resumeProducing()
        self.finish()
        self.assertEqual(xids(self.client), [-1] * COUNT + [XID])

    def test_a_slow_peer_has_the_events_of_one_part_waiting(self) -> None:
        """It takes a little at a time, and then no more for a while."""
        connection, transport = self.client.connection, self.client.transport

        def write(data: bytes) -> None:
            transport.write(data)
            connection.pauseProducing()

        connection._outgoing.begin(write)
        self.client.send(set_watches(MISSING, (), ()))
        waiting = set()
        for _ in range(2 * COUNT):
            waiting.add(connection.pending)
            connection.resumeProducing()
            self.rig.clock.advance(0)
        self.assertTrue(0 < max(waiting) < PART, max(waiting))
        self.assertEqual(xids(self.client), [-1] * COUNT + [XID])

    def test_a_slow_peer_keeps_its_session_while_the_disk_is_slow(self) -> None:
        """It is not read meanwhile."""
        client = self.rig.client(ConnectRequest(0, 4_000))
        client.send(set_watches(MISSING, (), ()))
        client.connection.pauseProducing()
        for _ in range(5):
            self.rig.clock.advance(0.5)
        self.other.send(request(1, Opcode.CREATE, create("/a")))
        client.connection.resumeProducing()
        for _ in range(15):
            self.rig.clock.advance(0.5)
        self.assertFalse(client.closed)
        self.finish()
        self.assertEqual(xids(client), [-1] * COUNT + [XID])

    def test_a_peer_that_takes_nothing_loses_its_session(self) -> None:
        """The rest of its request does not keep it alive."""
        client = self.rig.client(ConnectRequest(0, 4_000))
        client.send(set_watches((), MISSING, ()))
        client.connection.pauseProducing()
        for _ in range(12):
            self.rig.clock.advance(0.5)
        self.assertTrue(client.closed)
        self.assertEqual(len(self.rig.server.tree.watches.data), 0)

    def test_a_client_that_waits_for_its_watches_keeps_its_session(self) -> None:
        """A disk may take longer than the session's timeout."""
        client = self.rig.client(ConnectRequest(0, 4_000))
        self.other.send(request(1, Opcode.CREATE, create("/a")))
        client.send(set_watches(MISSING, (), ()))
        for _ in range(30):
            self.rig.clock.advance(0.5)
        self.finish()
        self.assertEqual(xids(client), [-1] * COUNT + [XID])

    def test_a_slow_disk_holds_back_the_events_of_one_part(self) -> None:
        """No other part is begun before they are told."""
        self.other.send(request(1, Opcode.CREATE, create("/a")))
        self.client.send(set_watches(MISSING, (), ()) + request(9, Opcode.EXISTS, read("/")))
        for _ in range(10):
            self.rig.clock.advance(0)
        self.assertEqual(xids(self.client), [])
        self.assertLessEqual(self.rig.server.host.held_back, PART + 2)
        self.finish()
        self.assertEqual(xids(self.client), [-1] * COUNT + [XID, 9])

    def test_changes_in_between_are_reported_once(self) -> None:
        """Both of watches that were left before, and of those that are left later."""
        paths = [f"/{number}" for number in range(COUNT)]
        for path in paths:
            self.other.send(request(1, Opcode.CREATE, create(path)))
        for _ in range(10):
            self.finish()
        self.client.send(set_watches(paths, (), (), seen=self.rig.server.last_zxid))
        for path in (paths[0], paths[-1]):
            self.other.send(request(1, Opcode.SET_DATA, set_data(path, b"new")))
        self.assertEqual(xids(self.client), [])
        self.finish()
        self.assertEqual(events(self.client), [(EventType.CHANGED, path) for path in (paths[0], paths[-1])])
        self.assertEqual(xids(self.client), [-1, -1, XID])
        self.rig.ask(self.other, Opcode.SET_DATA, set_data(paths[1], b"new"))
        self.assertEqual(events(self.client)[-1], (EventType.CHANGED, paths[1]))

    def test_nothing_is_left_of_a_lost_connection(self) -> None:
        """Neither watches, nor a timer, nor bytes that count."""
        for waits in (False, True):
            client = self.rig.client()
            timers = set(self.rig.clock.getDelayedCalls())
            if waits:
                self.other.send(request(1, Opcode.CREATE, create("/a")))
            client.send(set_watches((), MISSING, ()))
            client.lose()
            if not waits:
                self.assertEqual(set(self.rig.clock.getDelayedCalls()) - timers, set())
            self.finish()
            self.assertEqual((len(self.rig.server.tree.watches.data), self.rig.server.pending_bytes), (0, 0))

    def test_a_part_without_room_ends_the_request(self) -> None:
        """It is answered with the error, once; the connection goes on."""
        rig = Rig(watches_bytes=300_000)
        client = rig.client()
        client.send(set_watches(MISSING[:1_000], MISSING, ()) + request(9, Opcode.EXISTS, read("/")))
        for _ in range(20):
            rig.settle()
        self.assertEqual(xids(client), [-1] * 1_000 + [XID, 9])
        self.assertEqual((client.answers[-2][2], rig.server.pending_bytes), (-1, 0))

    def test_persistent_watches_are_refused(self) -> None:
        """The others are left, since clients do not look at the error."""
        for persistent in ((["/d"], ()), ((), ["/d"])):
            self.client.send(set_watches(MISSING, (), (), *persistent, opcode=Opcode.SET_WATCHES2))
            self.finish()
            came = self.client.receive()
            self.assertEqual(([xid for xid, *_ in came], came[-1][2]), ([-1] * COUNT + [XID], -6))
        self.client.send(set_watches((), MISSING, (), (), (), opcode=Opcode.SET_WATCHES2))
        self.finish()
        self.assertEqual([(xid, error) for xid, _, error, _ in self.client.receive()], [(XID, 0)])

    def test_a_malformed_rest_closes_the_connection(self) -> None:
        """It is found when its turn comes."""
        for rest in (b"", encode_ustrings(()), encode_ustrings(()) * 3, INT32.pack(-2), INT32.pack(9)):
            client = self.rig.client()
            client.send(request(XID, Opcode.SET_WATCHES, pack(">q", 0) + encode_ustrings(MISSING) + rest))
            self.finish()
            self.assertEqual((xids(client), client.closed), ([-1] * COUNT, True))
            client.lose()
        self.assertEqual(self.rig.server.counters.protocol_violations, 5)


class LargeRequestTests(SynchronousTestCase):
    """Requests of more than a kilobyte, each of which may take long."""

    def test_a_client_with_large_requests_takes_turns(self) -> None:
        """The clock is asked after each of them."""
        rig = Rig()
        client = rig.client()
        body = encode_ustring("/" + "x" * 2_000) + b"\0"
        rig.server.clock = BusyClock(rig.clock)
        client.send(b"".join(request(xid, Opcode.EXISTS, body) for xid in range(60)))
        self.assertLess(len(client.receive()), 16)
        for _ in range(20):
            rig.clock.advance(0)
        self.assertEqual(xids(client), list(range(60)))
