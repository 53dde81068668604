"""Tests of the client protocol without a connection, with kazoo's own reading and writing as the second opinion."""

from __future__ import annotations

import contextlib
from importlib import import_module
from struct import pack
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from logd.coord.errors import BadArguments, BadVersion, NoNode, Unimplemented
from logd.coord.records import (
    OPEN_ACL,
    Acl,
    Check,
    Children,
    Create,
    Created,
    Delete,
    EventType,
    Exists,
    GetAcl,
    GetChildren,
    GetData,
    Multi,
    NodeAcl,
    NodeData,
    SetAcl,
    SetData,
    SetWatches,
    Stat,
    Sync,
    WatchEvent,
)
from logd.coord.server.wire.answers import encode_answer, encode_event, encode_failed_multi
from logd.coord.server.wire.handshake import (
    ConnectRequest,
    ConnectResponse,
    decode_connect_request,
    decode_connect_response,
    encode_connect_request,
    encode_connect_response,
)
from logd.coord.server.wire.jute import NO_DATA
from logd.coord.server.wire.opcodes import Opcode
from logd.coord.server.wire.requests import Auth, Call, CloseSession, Ping, decode_call
from logd.errors import ProtocolViolation

kazoo: Any = import_module("kazoo.protocol.serialization")
security: Any = import_module("kazoo.security")

STAT = Stat(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11)
DIGEST = Acl(7, "digest", "me:x")


def acls(*rows: Acl) -> list[Any]:
    """Return kazoo's rows of an access list."""
    return [security.ACL(row.permissions, security.Id(row.scheme, row.identity)) for row in rows]


def read(body: bytes, opcode: int, xid: int = 7) -> Call:
    """Decode a request with this body."""
    frame = pack(">ii", xid, opcode) + body
    return decode_call(frame, 0, len(frame))


class RequestTests(SynchronousTestCase):
    """The requests of clients."""

    def test_requests_of_kazoo_are_read_as_meant(self) -> None:
        """The list has every request that kazoo can write."""
        world = acls(*OPEN_ACL)
        cases: list[tuple[Any, Any]] = [
            (kazoo.Create("/a", b"x", world, 0), Create("/a", b"x")),
            (kazoo.Create("/a", b"x", world, 3), Create("/a", b"x", ephemeral=True, sequence=True)),
            (kazoo.Create2("/a", b"", acls(DIGEST), 1), Create("/a", b"", (DIGEST,), ephemeral=True)),
            (kazoo.Delete("/a", 3), Delete("/a", 3)),
            (kazoo.Exists("/a", True), Exists("/a", True)),
            (kazoo.GetData("/\u00e4", None), GetData("/\u00e4")),
            (kazoo.SetData("/a", b"y", -1), SetData("/a", b"y")),
            (kazoo.GetACL("/a"), GetAcl("/a")),
            (kazoo.SetACL("/a", acls(DIGEST), 2), SetAcl("/a", (DIGEST,), 2)),
            (kazoo.GetChildren("/a", True), GetChildren("/a", True)),
            (kazoo.GetChildren2("/a", None), GetChildren("/a")),
            (kazoo.Sync("/a"), Sync("/a")),
            (kazoo.CheckVersion("/a", 4), Check("/a", 4)),
            (
                kazoo.Transaction([kazoo.Create("/a", b"", world, 0), kazoo.CheckVersion("/b", 1)]),
                Multi((Create("/a"), Check("/b", 1))),
            ),
        ]
        for theirs, ours in cases:
            self.assertEqual(read(theirs.serialize(), theirs.type), Call(7, theirs.type, ours, self.parts(theirs)))
        self.assertEqual(read(b"", kazoo.Ping.type).asked, Ping())
        self.assertEqual(read(b"", kazoo.Close.type).asked, CloseSession())
        self.assertEqual(read(kazoo.Auth(0, "digest", "u:p").serialize(), 100).asked, Auth("digest", b"u:p"))

    def parts(self, request: Any) -> tuple[int, ...]:
        """Return the types of a multi's parts."""
        return tuple(each.type for each in getattr(request, "operations", ()))

    def test_watches_can_be_left_again(self) -> None:
        """Persistent ones are answered with Unimplemented."""
        lists = pack(">q", 5) + pack(">ii2s", 1, 2, b"/a") + pack(">i", 0) + pack(">ii2s", 1, 2, b"/c")
        expected = SetWatches(5, ("/a",), (), ("/c",))
        self.assertEqual(read(lists, Opcode.SET_WATCHES).asked, expected)
        self.assertEqual(read(lists + pack(">ii", 0, 0), Opcode.SET_WATCHES2).asked, expected)
        persistent = lists + pack(">ii2si", 1, 2, b"/d", 0)
        self.assertIsInstance(read(persistent, Opcode.SET_WATCHES2).asked, Unimplemented)

    def test_an_impossible_request_is_answered_with_an_error(self) -> None:
        """The connection goes on, since the frame is well formed."""
        create = kazoo.Create("/a", b"", acls(*OPEN_ACL), 0).serialize()[:-4]
        self.assertIsInstance(read(create + pack(">i", 4), Opcode.CREATE).asked, Unimplemented)
        self.assertIsInstance(read(create + pack(">i", 9), Opcode.CREATE).asked, BadArguments)
        self.assertIsInstance(read(b"whatever", 103).asked, Unimplemented)

    def test_missing_data_differ_from_empty_data(self) -> None:
        """A client that writes null reads null."""
        self.assertIs(getattr(read(kazoo.SetData("/a", None, -1).serialize(), 5).asked, "data", None), NO_DATA)
        self.assertIsNot(getattr(read(kazoo.SetData("/a", b"", -1).serialize(), 5).asked, "data", None), NO_DATA)

    def test_a_malformed_body_is_a_protocol_violation(self) -> None:
        """It may be cut short anywhere, have bytes behind it, or lengths that lie."""
        whole = kazoo.Create("/a", b"data", acls(DIGEST), 0).serialize()
        for end in range(len(whole)):
            self.assertRaises(ProtocolViolation, read, whole[:end], Opcode.CREATE)
        self.assertRaises(ProtocolViolation, read, whole + b"x", Opcode.CREATE)
        for length in (-2, 1 << 30, -(1 << 31)):
            self.assertRaises(ProtocolViolation, read, pack(">i", length), Opcode.SYNC)
            self.assertRaises(ProtocolViolation, read, pack(">qi", 0, length), Opcode.SET_WATCHES)
        self.assertRaises(ProtocolViolation, read, pack(">i", 1) + b"\xff", Opcode.SYNC)
        self.assertRaises(ProtocolViolation, read, pack(">i?i", 4, False, -1), Opcode.MULTI)

    @given(st.sampled_from(sorted(Opcode)), st.binary(max_size=60))
    def test_any_bytes_are_a_request_or_a_violation(self, opcode: int, body: bytes) -> None:
        """A client's bytes must raise nothing else."""
        with contextlib.suppress(ProtocolViolation):
            read(body, opcode)


class AnswerTests(SynchronousTestCase):
    """The answers to clients, as kazoo reads them."""

    def body(self, opcode: int, answer: Any, parts: tuple[int, ...] = ()) -> bytes:
        """Return the body of an answer, and check its head."""
        frame = encode_answer(Call(7, opcode, Ping(), parts), 99, answer)
        self.assertEqual(frame[:20], pack(">iiqi", len(frame) - 4, 7, 99, 0))
        return frame[20:]

    def test_kazoo_reads_answers_as_meant(self) -> None:
        """The answers are to creates, reads, changes and questions for access lists."""
        created = Created("/a1", STAT)
        self.assertEqual(kazoo.Create.deserialize(self.body(1, created), 0), "/a1")
        path, stat = kazoo.Create2.deserialize(self.body(15, created), 0)
        self.assertEqual((path, tuple(stat)), ("/a1", tuple(STAT)))
        self.assertEqual(tuple(kazoo.Exists.deserialize(self.body(3, STAT), 0)), tuple(STAT))
        data, stat = kazoo.GetData.deserialize(self.body(4, NodeData(b"x", STAT)), 0)
        self.assertEqual((data, tuple(stat)), (b"x", tuple(STAT)))
        self.assertIsNone(kazoo.GetData.deserialize(self.body(4, NodeData(NO_DATA, STAT)), 0)[0])
        self.assertEqual(tuple(kazoo.SetData.deserialize(self.body(5, STAT), 0)), tuple(STAT))
        rows, stat = kazoo.GetACL.deserialize(self.body(6, NodeAcl((DIGEST, *OPEN_ACL), STAT)), 0)
        self.assertEqual((rows, tuple(stat)), (acls(DIGEST, *OPEN_ACL), tuple(STAT)))
        self.assertEqual(kazoo.GetChildren.deserialize(self.body(8, Children(("b", "a"), STAT)), 0), ["b", "a"])
        names, stat = kazoo.GetChildren2.deserialize(self.body(12, Children(("b",), STAT)), 0)
        self.assertEqual((names, tuple(stat)), (["b"], tuple(STAT)))
        self.assertEqual(self.body(2, None), b"")

    def test_a_multis_answers_have_the_forms_of_its_parts(self) -> None:
        """A check's and a delete's are empty."""
        body = self.body(14, (Created("/a", STAT), None, STAT, None), (1, 2, 5, 13))
        results = kazoo.Transaction.deserialize(body, 0)
        self.assertEqual([results[0], *results[1:2], tuple(results[2]), results[3]], ["/a", True, tuple(STAT), True])

    def test_each_part_of_a_failed_multi_has_its_error(self) -> None:
        """The parts before and behind the failed one say that they were not done."""
        frame = encode_failed_multi(Call(7, 14, Ping(), (1, 2, 5)), 99, 1, NoNode())
        names = [type(each).__name__ for each in kazoo.Transaction.deserialize(frame[20:], 0)]
        self.assertEqual(names, ["RolledBackError", "NoNodeError", "RuntimeInconsistency"])

    def test_an_error_is_its_code_and_nothing_more(self) -> None:
        """No body follows the head."""
        frame = encode_answer(Call(7, 5, Ping()), 99, BadVersion())
        self.assertEqual(frame, pack(">iiqi", 16, 7, 99, -103))

    def test_an_event_has_the_zxid_of_its_change(self) -> None:
        """Its xid is -1, which no request has."""
        frame = encode_event(99, WatchEvent(EventType.CHANGED, "/a"))
        self.assertEqual(frame[:20], pack(">iiqi", len(frame) - 4, -1, 99, 0))
        self.assertEqual(tuple(kazoo.Watch.deserialize(frame, 20)[0]), (3, 3, "/a"))


class HandshakeTests(SynchronousTestCase):
    """The first exchange of a connection."""

    def test_both_forms_of_a_connect_request_are_read(self) -> None:
        """They are read as they were written, the newer one also as kazoo writes it."""
        for asked in (ConnectRequest(5, 10_000, 3, b"secret", True), ConnectRequest(5, 10_000, has_read_only=False)):
            frame = encode_connect_request(asked)
            self.assertEqual(decode_connect_request(frame, 4, len(frame)), asked)
        theirs = kazoo.Connect(0, 9, 8000, 2, b"pw", False).serialize()
        self.assertEqual(decode_connect_request(theirs, 0, len(theirs)), ConnectRequest(9, 8000, 2, b"pw"))

    def test_a_connect_response_has_a_flag_for_newer_clients(self) -> None:
        """Older clients, which sent none, do not know it."""
        response = ConnectResponse(4000, 3, b"secret")
        frame = encode_connect_response(response)
        self.assertEqual(encode_connect_response(response, False)[4:], frame[4:-1])
        self.assertEqual(decode_connect_response(frame, 4, len(frame)), response)
        theirs, _ = kazoo.Connect.deserialize(frame, 4)
        self.assertEqual((theirs.time_out, theirs.session_id, theirs.passwd), (4000, 3, b"secret"))

    def test_a_malformed_connect_request_is_a_protocol_violation(self) -> None:
        """It may be cut short, have a byte too many, be empty, or have a huge password."""
        frame = encode_connect_request(ConnectRequest(5, 10_000, 3, b"secret"))[4:]
        for wrong in (frame[:-2], frame + b"x", b"", frame[:24] + pack(">i", 1 << 20) + bytes(1 << 20)):
            self.assertRaisesRegex(
                ProtocolViolation,
                "not the first request of a ZooKeeper client",
                decode_connect_request,
                wrong,
                0,
                len(wrong),
            )
