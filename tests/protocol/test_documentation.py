"""Tests of docs/protocol.md against the code: each vector on it, the table of magics, and that of error codes."""

from __future__ import annotations

import re
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from logd.errors import ERRORS_BY_CODE, InvalidMessage
from logd.log.epochs.mark import EpochMark, encode_epoch_mark, read_epoch_mark
from logd.protocol import loops
from logd.protocol.batch import encode_batch
from logd.protocol.batch_layout import with_leader_epoch
from logd.protocol.entry import LAYOUTS, Layout, encode_gap
from logd.protocol.message import Message
from logd.protocol.requests.alter_topic import AlterTopic, AlterTopicResponse
from logd.protocol.requests.apis import NATIVE_APIS
from logd.protocol.requests.authenticate import Authenticate, AuthenticateResponse
from logd.protocol.requests.create_delete_topic import (
    CreateTopic,
    CreateTopicResponse,
    CreateTopicResponseV1,
    CreateTopicResponseV2,
    CreateTopicV1,
    CreateTopicV2,
    DeleteTopic,
    DeleteTopicResponse,
)
from logd.protocol.requests.describe_log import DescribeLog, DescribeLogResponse, SegmentInfo
from logd.protocol.requests.fetch_session import (
    AT_ONCE,
    EXACT,
    FetchWaitResponseV1,
    FetchWaitV1,
    MovedPart,
    NewPart,
    SessionPart,
)
from logd.protocol.requests.fetch_wait import FetchedPart, FetchPart, FetchWait, FetchWaitResponse
from logd.protocol.requests.fields import Reader
from logd.protocol.requests.groups.prepare_group import GroupAclRow, PrepareGroup, PrepareGroupResponse
from logd.protocol.requests.legacy_requests import Fetch, LegacyRequest, MultiFetch, MultiProduce, Offsets, Produce
from logd.protocol.requests.legacy_responses import (
    FetchResponse,
    LegacyResponse,
    MultiFetchResponse,
    OffsetsResponse,
)
from logd.protocol.requests.metadata import (
    BrokerAddress,
    Metadata,
    MetadataResponse,
    MetadataResponseV1,
    MetadataV1,
    PartitionMetadata,
    TopicMetadata,
)
from logd.protocol.requests.produce_ack import ProduceAck, ProduceAckResponse, ProducedPart, ProducePart
from logd.protocol.requests.repair import Repair, RepairedDamage, RepairResponse
from logd.protocol.requests.replica_fetch import (
    FlushedPart,
    ReplicaFetch,
    ReplicaFetchedPart,
    ReplicaFetchResponse,
    ReplicaFetchV1,
    ReplicaPart,
    ReplicaProgress,
)
from logd.protocol.requests.replicas.describe_replicas import (
    FOLLOWS,
    LEADS,
    DescribedReplica,
    DescribeReplicas,
    DescribeReplicasResponse,
    DescribeReplicasResponseV1,
    DescribeReplicasV1,
    FollowerEnd,
)
from logd.protocol.requests.replicas.operations import (
    DrainBroker,
    DrainBrokerResponse,
    ElectLeaders,
    ElectLeadersResponse,
    ElectLeadersResponseV1,
    ElectLeadersV1,
    MovedPartition,
    Placed,
    Reassign,
    ReassignResponse,
)
from logd.protocol.requests.replicas.replica_read import ReplicaRead, ReplicaReadResponse, ReplicaReadV1
from logd.protocol.requests.requests import NativeRequest, decode_request, encode_request
from logd.protocol.requests.responses import (
    ErrorResponse,
    NativeResponse,
    encode_legacy_response,
    encode_response,
    read_response,
)
from tests.protocol.wire import joined

PAGE = Path(__file__).resolve().parents[2] / "docs" / "protocol.md"

ENTRY = loops.encode_set([Message(b"hello")])
OLD_ENTRY = bytes.fromhex("0000000b01003610a68668656c6c6f")
TIME = 1320969600000
UUID = "8c2d0f5e"
ID = 0x40000001

MESSAGES = {
    "magic 0, hello": Message(b"hello"),
    "magic 2, all of it": Message(b"hello", key=b"k", timestamp=TIME, headers=[("server", b"web1")]),
    "magic 2, tombstone": Message(None, key=b"k", timestamp=TIME),
    "magic 2, a key alone": Message(b"hello", key=b"k"),
    "magic 2, a header without a value": Message(b"", headers=[("a", None)]),
}
BATCHES = {
    "batch, hello": [Message(b"hello", timestamp=TIME)],
    "batch, two messages": [Message(b"hello", key=b"k", timestamp=TIME), Message(b"world", timestamp=TIME + 5)],
    "batch, no time": [Message(b"hello")],
    "batch, a header": [Message(b"hello", headers=[("server", b"web1"), ("a", None)])],
    "batch, a tombstone": [Message(None, key=b"k", timestamp=TIME)],
    "batch, 64 empty messages": [Message(b"")] * 64,
}
MARK = "mark, epoch 5 of broker 2"
REQUESTS: dict[str, LegacyRequest | NativeRequest] = {
    "Produce": Produce("test", 0, OLD_ENTRY),
    "Fetch": Fetch("topic", 1, 10, 100),
    "MultiFetch": MultiFetch((Fetch("topic", 1, 10, 100),)),
    "MultiProduce": MultiProduce((Produce("test", 0, OLD_ENTRY),)),
    "Offsets": Offsets("test", 0, -1, 1),
    "Metadata, all topics": Metadata(None, correlation_id=ID),
    "Metadata, version 1": MetadataV1(("test",), correlation_id=ID),
    "Metadata, one topic, create": Metadata(("test",), True, ID),
    "ProduceAck": ProduceAck(-1, 30000, (ProducePart("test", 0, 0, False, ENTRY),), ID),
    "ProduceAck, restart, any": ProduceAck(1, 30000, (ProducePart("test", -1, 0, True, ENTRY),), ID),
    "FetchWait": FetchWait(500, 1, 1048576, (FetchPart("test", 0, 0, 14, 65536),), ID),
    "FetchWait, exact": FetchWait(500, 1, 1048576, (FetchPart("test", 0, 0, 20, 65536, True),), ID),
    "FetchWait, version 1, first": FetchWaitV1(
        1,
        0,
        500,
        1,
        1048576,
        (NewPart("test", 0, 2, 0, 0, 65536, AT_ONCE), NewPart("test", 1, 3, 0, 14, 65536, EXACT)),
        correlation_id=ID,
    ),
    "FetchWait, version 1, next": FetchWaitV1(1, 1, 500, 1, 1048576, (), (MovedPart(1, 28, 65536, EXACT),), (0,), ID),
    "CreateTopic": CreateTopic("test", 4, {"retention.ms": 3600000}, ID),
    "CreateTopic, version 1": CreateTopicV1("test", 4, {"message.format": "0.7"}, ID),
    "CreateTopic, version 2": CreateTopicV2("test", 4, 3, {"min.insync.replicas": "2"}, ID),
    "DeleteTopic": DeleteTopic("test", ID),
    "AlterTopic, a setting": AlterTopic("test", "", 0, {"retention.ms": "3600000"}, ID),
    "AlterTopic, partitions": AlterTopic("test", UUID, 8, {}, ID),
    "Authenticate": Authenticate("SCRAM-SHA-256", b"n,,n=ann,r=fyko", ID),
    "PrepareGroup": PrepareGroup("g", False, ID),
    "DescribeLog": DescribeLog("test", 0, (20,), TIME, ID),
    "Reassign": Reassign("test", UUID, (Placed(0, (2, 3)),), (), 0, 1000000, correlation_id=ID),
    "Reassign, only plan": Reassign("test", "", (), (1, 2), 2, 0, True, correlation_id=ID),
    "ElectLeaders": ElectLeaders("test", UUID, ((0, 2), (1, -1)), True, ID),
    "ElectLeaders, version 1": ElectLeadersV1("test", UUID, ((0, -1),), False, ID, True),
    "DrainBroker": DrainBroker(2, True, ID),
    "DescribeReplicas": DescribeReplicas("test", ID),
    "DescribeReplicas, version 1": DescribeReplicasV1("test", ID),
    "ReplicaFetch": ReplicaFetch(2, UUID, 500, 4 << 20, (ReplicaPart("test", 0, 5, 28, 4, 28),), (("test", 1),), ID),
    "ReplicaFetch, version 1": ReplicaFetchV1(
        2, UUID, 500, 4 << 20, (ReplicaPart("test", 0, 5, 28, 4, 28, UUID),), (("test", 1),), ID
    ),
    "ReplicaRead": ReplicaRead("test", 0, 5, 28, 14, ID),
    "ReplicaRead, version 1": ReplicaReadV1("test", UUID, 0, 5, 28, 14, ID),
    "ReplicaProgress": ReplicaProgress((FlushedPart("test", 0, 5, 42),), ID),
    "Repair, dry run": Repair("test", 3, True, False, 1 << 30, False, ID),
    "Repair, cut": Repair("test", 3, False, True, -1, False, ID),
    "Repair, accept": Repair("test", 3, False, False, 1 << 40, True, ID),
}
LEGACY_RESPONSES: dict[str, LegacyResponse] = {
    "Fetch response": FetchResponse(0, OLD_ENTRY),
    "Fetch response, empty": FetchResponse(0),
    "Fetch response, out of range": FetchResponse(1),
    "MultiFetch response": MultiFetchResponse(0, (FetchResponse(0, OLD_ENTRY), FetchResponse(1))),
    "Offsets response": OffsetsResponse(0, (240, 216, 108, 0)),
}
RESPONSES: dict[str, tuple[NativeRequest, NativeResponse]] = {
    "Metadata response": (
        Metadata(None),
        MetadataResponse(
            (BrokerAddress(1, "localhost", 6667),),
            (TopicMetadata("test", 0, UUID, (PartitionMetadata(0, 0, 1, 0, (1,), (1,)),)),),
        ),
    ),
    "Metadata response, version 1": (
        MetadataV1(None),
        MetadataResponseV1(
            (BrokerAddress(1, "localhost", 6667),),
            (TopicMetadata("test", 0, UUID, (PartitionMetadata(0, 0, 1, 0, (1,), (1,)),), "0.7"),),
            UUID,
        ),
    ),
    "ProduceAck response": (ProduceAck(1, 0, ()), ProduceAckResponse((ProducedPart("test", -1, 0, 3, 14, 28),))),
    "ProduceAck response, refused": (ProduceAck(1, 0, ()), ProduceAckResponse((ProducedPart("test", 0, 2),))),
    "FetchWait response": (
        FetchWait(0, 0, 0, ()),
        FetchWaitResponse((FetchedPart("test", 0, 0, 0, 28, 14, ENTRY),)),
    ),
    "FetchWait response, version 1": (
        FetchWaitV1(1, 0, 0, 0, 0),
        FetchWaitResponseV1(1, 0, (SessionPart(0, 0, 0, 0, 0), SessionPart(1, 0, 0, 28, 14, ENTRY))),
    ),
    "any response, no fetch session": (FetchWaitV1(1, 1, 0, 0, 0), ErrorResponse(117, "begin it")),
    "CreateTopic response": (CreateTopic("test", 1, {}), CreateTopicResponse(0, UUID)),
    "CreateTopic response, version 1": (CreateTopicV1("test", 1, {}), CreateTopicResponseV1(0, UUID)),
    "CreateTopic response, version 2": (CreateTopicV2("test", 1, 3, {}), CreateTopicResponseV2(0, UUID)),
    "ReplicaFetch response": (
        ReplicaFetch(2, UUID, 0, 0, ()),
        ReplicaFetchResponse(0, (ReplicaFetchedPart("test", 0, 0, 5, 28, 0, 28, 5, -1, ENTRY),)),
    ),
    "ReplicaFetch response, diverging": (
        ReplicaFetch(2, UUID, 0, 0, ()),
        ReplicaFetchResponse(0, (ReplicaFetchedPart("test", 0, 0, 5, 28, 0, 28, 3, 20),)),
    ),
    "ReplicaRead response": (ReplicaRead("test", 0, 5, 28, 14), ReplicaReadResponse(0, 28, ENTRY)),
    "Authenticate response, not done": (
        Authenticate("SCRAM-SHA-256", b""),
        AuthenticateResponse(0, False, b"r=fykoXY,s=c2FsdA==,i=8192"),
    ),
    "Authenticate response, done": (Authenticate("SCRAM-SHA-256", b""), AuthenticateResponse(0, True, b"v=cHJvb2Y=")),
    "PrepareGroup response": (
        PrepareGroup("g"),
        PrepareGroupResponse(0, (GroupAclRow(31, "digest", "logd:h"), GroupAclRow(15, "digest", "ann:i"))),
    ),
    "PrepareGroup response, open": (PrepareGroup("g"), PrepareGroupResponse(0)),
    "AlterTopic response": (
        AlterTopic("test"),
        AlterTopicResponse(0, UUID, 8, {"retention.ms": "3600000", "message.format": "0.7"}),
    ),
    "Reassign response": (
        Reassign("test"),
        ReassignResponse(0, UUID, (MovedPartition(0, (1, 2), (2, 3)),)),
    ),
    "ElectLeaders response": (ElectLeaders("test"), ElectLeadersResponse(0)),
    "ElectLeaders response, version 1": (ElectLeadersV1("test"), ElectLeadersResponseV1(0, partitions=(0,))),
    "DrainBroker response": (DrainBroker(2, True), DrainBrokerResponse(0, True)),
    "DescribeReplicas response": (
        DescribeReplicas("test"),
        DescribeReplicasResponse(
            0, UUID, (2,), (DescribedReplica(0, LEADS, 5, 0, 28, 28, 42, 5, 14, (1, 3), (FollowerEnd(3, 28),)),)
        ),
    ),
    "DescribeReplicas response, version 1": (
        DescribeReplicasV1("test"),
        DescribeReplicasResponseV1(
            0, UUID, (), (DescribedReplica(0, FOLLOWS, 5, 0, 28, 28, 42, 5, 14, (), (), (1, 3)),)
        ),
    ),
    "DeleteTopic response": (DeleteTopic("test"), DeleteTopicResponse(0)),
    "DescribeLog response": (
        DescribeLog("test", 0),
        DescribeLogResponse(0, 0, 28, 28, (SegmentInfo(0, 28, TIME),), (14,), 0, UUID),
    ),
    "Repair response": (
        Repair("test", 3),
        RepairResponse(0, 1 << 30, (1 << 30) + 28, 2, 114, 0, (RepairedDamage(14, 14, 1, True, "the checksum"),)),
    ),
    "any response, unknown topic": (FetchWait(0, 0, 0, ()), ErrorResponse(101, "no topic test")),
}
#: Vectors of wrappers that a producer may not send.
REFUSED = (
    "refused: gzip, a set that is not compressed",
    "refused: gzip, the two bytes of zlib",
    "refused: snappy, a set that is not compressed",
    "refused: zstd, the three bytes of gzip",
)


def vectors() -> dict[str, str]:
    """Return the hex of each vector on the page: lines ``name   hex`` in blocks fenced as ``vectors``."""
    found: dict[str, str] = {}
    for block in re.findall(r"```vectors\n(.*?)```", PAGE.read_text(), re.DOTALL):
        name = ""
        for line in block.splitlines():
            start, _, digits = line.partition("  ")
            name = start or name
            found[name] = found.get(name, "") + re.sub(r"[\s|]", "", digits)
    return found


def covered_to(layout: Layout) -> str:
    """Return the end of what the checksum of a magic covers, in the words of the page."""
    if layout.checked_to is None:
        return "the end"
    short, long = layout.checked_to(bytes(100), 0), layout.checked_to(b"\0\0\0\1" * 25, 0)
    return str(short) if short == long else f"{short} + L"


class DocumentationTests(SynchronousTestCase):
    """The page docs/protocol.md, from which others write clients."""

    def setUp(self) -> None:
        """Read the page."""
        self.vectors = vectors()

    def test_every_vector_is_compared(self) -> None:
        """A vector that no test compares could be wrong for years."""
        others = {"magic 1, hello", "batch, hello, leader epoch 0", "gap, N = 5", "gap of 4096 bytes", MARK}
        known = {*MESSAGES, *BATCHES, *REQUESTS, *LEGACY_RESPONSES, *RESPONSES, *REFUSED, *others}
        self.assertEqual(set(self.vectors), known)

    def test_entries_have_the_pages_bytes(self) -> None:
        """Both ways; a wrapper of magic 1 without a codec is only decoded."""
        for name, message in MESSAGES.items():
            self.assertEqual((name, loops.encode_set([message]).hex()), (name, self.vectors[name]))
            self.assertEqual(loops.decode_set(bytes.fromhex(self.vectors[name])).messages, [message])
        self.assertEqual(loops.decode_set(bytes.fromhex(self.vectors["magic 1, hello"])).messages, [Message(b"hello")])

    def test_the_table_of_magics_is_the_codes(self) -> None:
        """Least lengths, and places and ranges of checksums, in the order of the code's table."""
        rows = re.findall(
            r"^\| (\d+)(?: \(ours\))? \| `(\w\w)`, .* \| (\d+) \| (\d+) \| (\d+) to (\d+|the end|12 \+ L) \|$",
            PAGE.read_text(),
            re.MULTILINE,
        )
        expected = [
            (each.magic, each.magic, each.minimum, each.checksum_at, each.checked_from, covered_to(each))
            for each in LAYOUTS.values()
        ]
        found = [
            (int(magic), int(code, 16), int(least), int(at), int(begin), end)
            for magic, code, least, at, begin, end in rows
        ]
        self.assertEqual(found, expected)

    def test_batches_have_the_pages_bytes(self) -> None:
        """Both ways; another leader epoch changes its own bytes and those of check alone."""
        for name, messages in BATCHES.items():
            entry = encode_batch(messages)
            shown = self.vectors[name]
            self.assertEqual((name, entry.hex()[: len(shown)]), (name, shown))
            self.assertEqual(loops.decode_set(entry).messages, messages)
        moved = with_leader_epoch(bytes.fromhex(self.vectors["batch, hello"]), 0)
        self.assertEqual(moved.hex(), self.vectors["batch, hello, leader epoch 0"])

    def test_marks_have_the_pages_bytes(self) -> None:
        """Readers find no message in a mark, and take it for sound."""
        entry = bytes.fromhex(self.vectors[MARK])
        self.assertEqual(encode_epoch_mark(EpochMark(5, 2)), entry)
        self.assertEqual(read_epoch_mark(entry), EpochMark(5, 2))
        self.assertEqual(loops.decode_set(entry).messages, [])
        self.assertEqual(loops.scan_set(entry)[:2], (len(entry), 1))

    def test_gaps_have_the_pages_bytes(self) -> None:
        """The smallest gap, and one of 4096 bytes."""
        self.assertEqual(encode_gap(9).hex(), self.vectors["gap, N = 5"])
        self.assertEqual(encode_gap(4096).hex(), self.vectors["gap of 4096 bytes"])

    def test_wrappers_of_another_codec_are_refused(self) -> None:
        """The broker answers error 2 that names the claimed codec; a reader takes the wrapper for corrupt."""
        for name in REFUSED:
            data = bytes.fromhex(self.vectors[name])
            error = self.assertRaises(InvalidMessage, loops.check_set, data, 1000)
            self.assertEqual((error.code, name.split(":")[1].split(",")[0].strip() in str(error)), (2, True))
            self.assertIsNotNone(loops.decode_set(data).error)

    def test_requests_have_the_pages_bytes(self) -> None:
        """Both ways, requests of 0.7 and native ones."""
        for name, request in REQUESTS.items():
            self.assertEqual((name, b"".join(encode_request(request)).hex()), (name, self.vectors[name]))
            frame = bytes.fromhex(self.vectors[name])
            self.assertEqual(decode_request(frame, 4, len(frame)), request)

    def test_legacy_responses_have_the_pages_bytes(self) -> None:
        """Only as they are encoded: clients of 0.7 decode them."""
        for name, response in LEGACY_RESPONSES.items():
            self.assertEqual((name, joined(encode_legacy_response(response)).hex()), (name, self.vectors[name]))

    def test_responses_have_the_pages_bytes(self) -> None:
        """Both ways, by the request that they answer."""
        for name, (request, response) in RESPONSES.items():
            self.assertEqual((name, joined(encode_response(response, ID)).hex()), (name, self.vectors[name]))
            frame = bytes.fromhex(self.vectors[name])
            self.assertEqual(read_response(request, Reader(frame, 8, len(frame))), response)

    def test_every_version_of_a_request_is_named(self) -> None:
        """A client that others write then asks for no version that brokers do not know, and can ask for all."""
        words = re.search(r"The version is 0, in (.*) also 1, and in (.*) also 2\.", PAGE.read_text("utf-8"))
        assert words is not None
        names = {api.number: api.request.__name__ for api in NATIVE_APIS if not api.version}
        for version, listed in enumerate(words.groups(), 1):
            known = {names[api.number] for api in NATIVE_APIS if api.version == version}
            self.assertEqual(set(re.findall(r"\w+", listed)) - {"and"}, known)

    def test_every_error_code_is_in_the_table(self) -> None:
        """With the name of its class, and whether a client may try again."""
        rows = re.findall(r"^\| (-?\d+) \| (\w+) \| (yes|no) \|", PAGE.read_text(), re.MULTILINE)
        expected = [(code, cls.__name__, "yes" if cls.retriable else "no") for code, cls in ERRORS_BY_CODE.items()]
        self.assertEqual([(int(code), name, again) for code, name, again in rows], expected)
