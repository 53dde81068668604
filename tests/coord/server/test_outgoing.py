"""Tests of logd.coord.server.outgoing: when answers become bytes, and which of them leave together."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from logd.coord.server.counters import ServerCounters
from logd.coord.server.outgoing import Outgoing
from logd.coord.server.wire.opcodes import Opcode
from tests.coord.server.rig import Rig, create, read, request, set_data


class OutgoingTests(SynchronousTestCase):
    """Over a transport that is a list."""

    def setUp(self) -> None:
        """Begin; ``made`` are the answers that were encoded."""
        self.written: list[bytes] = []
        self.made: list[bytes] = []
        self.counters = ServerCounters()
        self.outgoing = Outgoing(self.counters)
        self.outgoing.begin(self.written.append)

    def make(self, data: bytes) -> bytes:
        """Encode an answer."""
        self.made.append(data)
        return data

    def test_answers_sent_while_held_leave_in_one_write(self) -> None:
        """They leave at the end of the hold; without one each leaves at once."""
        self.outgoing.send(self.make, b"1")
        self.outgoing.hold()
        self.outgoing.hold()
        self.outgoing.send(self.make, b"2")
        self.outgoing.let_go()
        self.outgoing.send(self.make, b"3")
        self.assertEqual(self.written, [b"1"])
        self.outgoing.let_go()
        self.assertEqual(self.written, [b"1", b"23"])
        self.assertEqual((self.counters.packets_sent, self.counters.bytes_sent), (3, 3))

    def test_held_bytes_leave_once_they_fill_a_write(self) -> None:
        """A write of some twenty thousand bytes is large enough."""
        self.outgoing.hold()
        for _ in range(10):
            self.outgoing.send(self.make, bytes(5_000))
        self.assertEqual([len(each) for each in self.written], [20_000, 20_000])

    def test_answers_are_encoded_when_they_are_taken(self) -> None:
        """Their order is kept, and new ones stand behind those that wait."""
        self.outgoing.pause()
        for data in (b"1", b"2", b"3"):
            self.outgoing.send(self.make, data)
        self.assertEqual((self.made, len(self.outgoing), self.outgoing.is_held_up), ([], 3, True))

        def write(data: bytes) -> None:
            self.written.append(data)
            if data == b"2":
                self.outgoing.pause()

        self.outgoing.begin(write)
        self.outgoing.resume()
        self.assertEqual((self.written, len(self.outgoing), self.outgoing.is_held_up), ([b"1", b"2"], 1, True))
        self.outgoing.send(self.make, b"4")
        self.outgoing.resume()
        self.assertEqual((self.written, self.outgoing.is_held_up), ([b"1", b"2", b"3", b"4"], False))

    def test_cleared_answers_are_neither_encoded_nor_written(self) -> None:
        """The connection that they were for is gone."""
        self.outgoing.pause()
        self.outgoing.send(self.make, b"1")
        self.outgoing.clear()
        self.outgoing.resume()
        self.outgoing.flush()
        self.assertEqual((self.made, self.written), ([], []))


class TogetherTests(SynchronousTestCase):
    """A server's answers and events."""

    def test_one_sync_makes_one_write_per_connection(self) -> None:
        """The write has all the answers and events that the sync releases."""
        rig = Rig()
        one, other = rig.client(), rig.client()
        rig.ask(one, Opcode.CREATE, create("/a"))
        rig.ask(other, Opcode.GET_DATA, read("/a", True))
        writes: dict[str, list[bytes]] = {"one": [], "other": []}
        one.connection._outgoing.begin(writes["one"].append)
        other.connection._outgoing.begin(writes["other"].append)
        one.send(request(1, Opcode.SET_DATA, set_data("/a", b"1")) + request(2, Opcode.SET_DATA, set_data("/a", b"2")))
        other.send(request(3, Opcode.GET_DATA, read("/a")))
        rig.settle()
        self.assertEqual([len(each) for each in writes.values()], [1, 1])
        one.send(request(4, Opcode.SET_DATA, set_data("/a", b"3")))
        rig.settle()
        self.assertEqual([len(each) for each in writes.values()], [2, 1])
