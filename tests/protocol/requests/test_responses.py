"""Tests of the responses: vectors, round trips, ranges of files in the place of sets, and refusals."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from logd.errors import ProtocolViolation
from logd.protocol.requests.alter_topic import AlterTopic, AlterTopicResponse
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
from logd.protocol.requests.fetch_wait import FetchedPart, FetchWait, FetchWaitResponse
from logd.protocol.requests.fields import Reader, size_of
from logd.protocol.requests.groups.prepare_group import GroupAclRow, PrepareGroup, PrepareGroupResponse
from logd.protocol.requests.legacy_requests import Fetch, LegacyRequest, MultiFetch, Offsets
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
from logd.protocol.requests.produce_ack import ProduceAck, ProduceAckResponse, ProducedPart
from logd.protocol.requests.repair import Repair, RepairedDamage, RepairResponse
from logd.protocol.requests.replica_fetch import ReplicaFetch, ReplicaFetchedPart, ReplicaFetchResponse
from logd.protocol.requests.replicas.describe_replicas import (
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
    Reassign,
    ReassignResponse,
)
from logd.protocol.requests.replicas.replica_read import ReplicaRead, ReplicaReadResponse
from logd.protocol.requests.requests import NativeRequest
from logd.protocol.requests.responses import (
    ErrorResponse,
    NativeResponse,
    encode_legacy_response,
    encode_response,
    read_legacy_response,
    read_response,
)
from tests.net.doubles import BytesFile, Range
from tests.protocol.loops.test_loops import HELLO_1
from tests.protocol.strategies import int16s, int32s, int64s, sets, texts
from tests.protocol.wire import joined

FETCH = Fetch("t", 0, 0, 100)
OFFSETS = Offsets("t", 0, -1, 9)
LEGACY_VECTORS: dict[str, tuple[LegacyRequest, LegacyResponse]] = {
    "00000011 0000" + HELLO_1.hex(): (FETCH, FetchResponse(0, HELLO_1)),
    "00000002 0000": (FETCH, FetchResponse(0)),
    "00000002 0001": (FETCH, FetchResponse(1)),
    "0000001d 0000 00000011 0000" + HELLO_1.hex() + "00000002 0001": (
        MultiFetch((FETCH, FETCH)),
        MultiFetchResponse(0, (FetchResponse(0, HELLO_1), FetchResponse(1))),
    ),
    "00000002 0004": (MultiFetch((FETCH,)), MultiFetchResponse(4)),
    "00000026 0000 00000004 00000000000000f0 00000000000000d8 000000000000006c 0000000000000000": (
        OFFSETS,
        OffsetsResponse(0, (240, 216, 108, 0)),
    ),
    "00000002 0003": (OFFSETS, OffsetsResponse(3)),
}

_int32_lists = st.lists(int32s, max_size=3).map(tuple)
_partitions = st.builds(PartitionMetadata, int32s, int16s, int32s, int32s, _int32_lists, _int32_lists)
_topic_fields = texts, int16s, texts, st.lists(_partitions, max_size=2).map(tuple)
_topics = st.tuples(*_topic_fields).map(lambda fields: TopicMetadata(*fields))
_topics_v1 = st.builds(TopicMetadata, *_topic_fields, texts)
_brokers = st.builds(BrokerAddress, int32s, texts, int32s)
_kinds = st.integers(-128, 127)
_segments = st.builds(SegmentInfo, int64s, int64s, int64s)
_parts = st.builds(FetchedPart, texts, int32s, int16s, int64s, int64s, int64s, sets)
_replica_parts = st.builds(
    ReplicaFetchedPart, texts, int32s, int16s, int32s, int64s, int64s, int64s, int32s, int64s, sets
)
_broker_lists = st.lists(_brokers, max_size=3).map(tuple)
_topic_lists = st.lists(_topics, max_size=2).map(tuple)
_codes = int16s.filter(lambda code: code != 0)
EXCHANGES: st.SearchStrategy[tuple[NativeRequest, NativeResponse]] = st.one_of(
    st.tuples(
        st.just(Metadata(None)),
        st.tuples(_broker_lists, _topic_lists).map(lambda lists: MetadataResponse(*lists)),
    ),
    st.tuples(
        st.just(MetadataV1(None)),
        st.builds(MetadataResponseV1, _broker_lists, st.lists(_topics_v1, max_size=2).map(tuple), texts),
    ),
    st.tuples(
        st.just(ProduceAck(1, 0, ())),
        st.builds(
            ProduceAckResponse,
            st.lists(st.builds(ProducedPart, texts, int32s, int16s, int32s, int64s, int64s), max_size=3).map(tuple),
        ),
    ),
    st.tuples(
        st.just(FetchWait(0, 0, 0, ())),
        st.builds(FetchWaitResponse, st.lists(_parts, max_size=3).map(tuple)),
    ),
    st.tuples(st.just(CreateTopic("t", 1, {})), texts.map(lambda uuid: CreateTopicResponse(0, uuid))),
    st.tuples(st.just(CreateTopic("t", 1, {})), st.builds(CreateTopicResponse, _codes, st.just(""), texts)),
    st.tuples(st.just(CreateTopicV1("t", 1, {})), texts.map(lambda uuid: CreateTopicResponseV1(0, uuid))),
    st.tuples(st.just(CreateTopicV2("t", 1, 3, {})), texts.map(lambda uuid: CreateTopicResponseV2(0, uuid))),
    st.tuples(
        st.just(ReplicaFetch(1, "i", 0, 0, ())),
        st.builds(ReplicaFetchResponse, st.just(0), st.lists(_replica_parts, max_size=3).map(tuple), st.just("")),
    ),
    st.tuples(
        st.just(ReplicaRead("t", 0, 1, 0, 100)),
        st.builds(ReplicaReadResponse, st.just(0), int64s, sets, st.just("")),
    ),
    st.tuples(
        st.just(AlterTopic("t")),
        st.builds(
            AlterTopicResponse, st.just(0), texts, int32s, st.dictionaries(texts, texts, max_size=3), st.just("")
        ),
    ),
    st.tuples(
        st.just(AlterTopic("t")),
        st.tuples(_codes, texts).map(lambda refusal: AlterTopicResponse(refusal[0], text=refusal[1])),
    ),
    st.tuples(
        st.just(Authenticate("PLAIN", b"")),
        st.builds(AuthenticateResponse, st.just(0), st.booleans(), st.binary(max_size=40), st.just("")),
    ),
    st.tuples(
        st.just(Authenticate("PLAIN", b"")),
        st.tuples(_codes, texts).map(lambda refusal: AuthenticateResponse(refusal[0], text=refusal[1])),
    ),
    st.tuples(
        st.just(Reassign("t")),
        st.builds(
            ReassignResponse,
            st.just(0),
            texts,
            st.lists(st.builds(MovedPartition, int32s, _int32_lists, _int32_lists), max_size=3).map(tuple),
            st.just(""),
        ),
    ),
    st.tuples(st.just(ElectLeaders("t")), st.just(ElectLeadersResponse(0))),
    st.tuples(
        st.just(ElectLeaders("t")),
        st.tuples(_codes, texts).map(lambda refusal: ElectLeadersResponse(refusal[0], text=refusal[1])),
    ),
    st.tuples(
        st.just(ElectLeadersV1("t")),
        _int32_lists.map(lambda numbers: ElectLeadersResponseV1(0, partitions=numbers)),
    ),
    st.tuples(st.just(DrainBroker(1, True)), st.booleans().map(lambda changed: DrainBrokerResponse(0, changed))),
    st.tuples(
        st.just(DescribeReplicas("t")),
        st.builds(
            DescribeReplicasResponse,
            st.just(0),
            texts,
            _int32_lists,
            st.lists(
                st.builds(
                    DescribedReplica,
                    *(int32s, _kinds, int32s, int64s, int64s, int64s, int64s, int32s, int64s),
                    _int32_lists,
                    st.lists(st.builds(FollowerEnd, int32s, int64s), max_size=2).map(tuple),
                    st.just(()),
                ),
                max_size=2,
            ).map(tuple),
            st.just(""),
        ),
    ),
    st.tuples(
        st.just(DescribeReplicasV1("t")),
        st.builds(
            DescribeReplicasResponseV1,
            st.just(0),
            texts,
            _int32_lists,
            st.lists(
                st.builds(
                    DescribedReplica,
                    *(int32s, _kinds, int32s, int64s, int64s, int64s, int64s, int32s, int64s),
                    _int32_lists,
                    st.lists(st.builds(FollowerEnd, int32s, int64s), max_size=2).map(tuple),
                    _int32_lists,
                ),
                max_size=2,
            ).map(tuple),
            st.just(""),
        ),
    ),
    st.tuples(
        st.just(PrepareGroup("g")),
        st.builds(
            PrepareGroupResponse,
            st.just(0),
            st.lists(st.builds(GroupAclRow, st.integers(-1, 31), texts, texts), max_size=3).map(tuple),
            st.just(""),
        ),
    ),
    st.tuples(
        st.just(PrepareGroup("g")),
        st.tuples(_codes, texts).map(lambda refusal: PrepareGroupResponse(refusal[0], text=refusal[1])),
    ),
    st.tuples(st.just(DeleteTopic("t")), st.just(DeleteTopicResponse(0))),
    st.tuples(st.just(DeleteTopic("t")), st.builds(DeleteTopicResponse, _codes, texts)),
    st.tuples(
        st.just(DescribeLog("t", 0)),
        st.builds(
            DescribeLogResponse,
            st.just(0),
            int64s,
            int64s,
            int64s,
            st.lists(_segments, max_size=3).map(tuple),
            st.lists(int64s, max_size=3).map(tuple),
            int64s,
            texts,
            st.just(""),
        ),
    ),
    st.tuples(
        st.just(Repair("t", 0)),
        st.builds(
            RepairResponse,
            st.just(0),
            int64s,
            int64s,
            int64s,
            int64s,
            _kinds,
            st.lists(st.builds(RepairedDamage, int64s, int64s, _kinds, st.booleans(), texts), max_size=3).map(tuple),
            st.just(""),
        ),
    ),
    st.tuples(
        st.just(Repair("t", 0)),
        st.tuples(_codes, texts).map(lambda refusal: RepairResponse(refusal[0], text=refusal[1])),
    ),
    st.tuples(
        st.just(DescribeLog("t", 0)),
        st.tuples(_codes, texts).map(lambda refusal: DescribeLogResponse(refusal[0], text=refusal[1])),
    ),
    st.tuples(
        st.sampled_from([Metadata(None), ProduceAck(1, 0, ()), FetchWait(0, 0, 0, ())]),
        st.builds(ErrorResponse, _codes, texts),
    ),
)


def read_native(request: NativeRequest, frame: bytes) -> NativeResponse:
    """Read the whole frame of a native response."""
    response: NativeResponse = read_response(request, Reader(frame, 8, len(frame)))
    return response


class LegacyResponseTests(SynchronousTestCase):
    """The responses of 0.7."""

    def test_responses_of_0_7_have_their_bytes_of_2011(self) -> None:
        """They are written out in hex, and read back too."""
        for text, (request, response) in LEGACY_VECTORS.items():
            frame = bytes.fromhex(text)
            self.assertEqual(joined(encode_legacy_response(response)), frame)
            self.assertEqual(read_legacy_response(request, Reader(frame, 4, len(frame))), response)

    def test_encoding_copies_no_message_set(self) -> None:
        """A set is a piece of its own, the same object; heads with no set between them are one piece."""
        self.assertEqual(encode_legacy_response(FetchResponse(0)), [bytes.fromhex("000000020000")])
        self.assertEqual(encode_legacy_response(MultiFetchResponse(0)), [bytes.fromhex("000000020000")])
        sets = [FetchResponse(1), FetchResponse(0, HELLO_1), FetchResponse(1), FetchResponse(1)]
        pieces = encode_legacy_response(MultiFetchResponse(0, tuple(sets)))
        self.assertEqual([size_of(piece) for piece in pieces], [18, 15, 12])
        self.assertIs(pieces[1], HELLO_1)

    def test_a_file_range_stands_for_its_bytes(self) -> None:
        """It is counted in the frame's size by its length, and sent by sendfile later."""
        found = Range(BytesFile(bytes(500)), 0, 500)
        for response in (FetchResponse(0, found), MultiFetchResponse(0, (FetchResponse(0, found),))):
            head, piece = encode_legacy_response(response)
            self.assertIs(piece, found)
            whole = joined([head, bytes(500)])
            self.assertEqual(int.from_bytes(whole[:4], "big"), len(whole) - 4)

    def test_wrong_lengths_are_violations(self) -> None:
        """Parts, counts and sizes that do not fit together, in each kind of response."""
        for text, request in (
            ("0000 00000002 0001", MultiFetch((FETCH, FETCH))),
            ("0000 00000002 0001 00000002 0001", MultiFetch((FETCH,))),
            ("0000 00000001 0001", MultiFetch((FETCH,))),
            ("0000 00000003 0001", MultiFetch((FETCH,))),
            ("0000 00000002 0000000000000001", OFFSETS),
            ("0000 00000000 00", OFFSETS),
            ("00", FETCH),
        ):
            body = bytes.fromhex(text)
            self.assertRaises(ProtocolViolation, read_legacy_response, request, Reader(body, 0, len(body)))


class NativeResponseTests(SynchronousTestCase):
    """The native responses."""

    @settings(deadline=None, max_examples=200)
    @given(EXCHANGES, int32s)
    def test_every_response_comes_back_as_it_was(
        self, exchange: tuple[NativeRequest, NativeResponse], correlation_id: int
    ) -> None:
        """With its own type too, behind its size and correlation id."""
        request, response = exchange
        frame = joined(encode_response(response, correlation_id))
        self.assertEqual(
            frame[:8], (len(frame) - 4).to_bytes(4, "big") + correlation_id.to_bytes(4, "big", signed=True)
        )
        again = read_native(request, frame)
        self.assertEqual((type(again), again), (type(response), response))

    @settings(deadline=None, max_examples=60)
    @given(EXCHANGES, st.data())
    def test_a_damaged_response_raises_only_a_violation(
        self, exchange: tuple[NativeRequest, NativeResponse], data: st.DataObject
    ) -> None:
        """For every prefix, and any change of a byte: a client must not crash by its broker's bytes."""
        request, response = exchange
        frame = joined(encode_response(response, 1))
        at = data.draw(st.integers(8, len(frame) - 1))
        changed = frame[:at] + data.draw(st.binary(max_size=2)) + frame[at + 1 :]
        for damaged in (changed, frame[:at]):
            try:
                read_native(request, damaged)
            except ProtocolViolation:
                continue

    @settings(deadline=None)
    @given(st.lists(_parts, max_size=3))
    def test_file_ranges_stand_for_their_bytes(self, parts: list[FetchedPart]) -> None:
        """The sent bytes are the same as with sets in memory."""
        files = {part: BytesFile(part.message_set) for part in parts}
        ranges = [
            part._replace(message_set=Range(files[part], 0, len(part.message_set))) if part.message_set else part
            for part in parts
        ]
        pieces = encode_response(FetchWaitResponse(tuple(ranges)), 5)
        sent = [piece.file.content if isinstance(piece, Range) else piece for piece in pieces]
        self.assertEqual(joined(sent), joined(encode_response(FetchWaitResponse(tuple(parts)), 5)))

    def test_a_long_text_is_shortened(self) -> None:
        """An error's text for people must not make its response too large to encode."""
        frame = joined(encode_response(ErrorResponse(-1, "é" * 40_000), 1))
        response = read_native(Metadata(None), frame)
        assert isinstance(response, ErrorResponse)
        self.assertLess(len(response.text), 1100)
