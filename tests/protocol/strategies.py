"""Strategies of hypothesis: messages, sets, and requests of every kind."""

from __future__ import annotations

from hypothesis import strategies as st

from logd.protocol.headers import Headers
from logd.protocol.message import Message
from logd.protocol.requests.alter_topic import AlterTopic
from logd.protocol.requests.authenticate import Authenticate
from logd.protocol.requests.create_delete_topic import CreateTopic, CreateTopicV1, CreateTopicV2, DeleteTopic
from logd.protocol.requests.describe_log import DescribeLog
from logd.protocol.requests.fetch_session import FetchWaitV1, MovedPart, NewPart
from logd.protocol.requests.fetch_wait import FetchPart, FetchWait
from logd.protocol.requests.groups.prepare_group import PrepareGroup
from logd.protocol.requests.legacy_requests import Fetch, MultiFetch, MultiProduce, Offsets, Produce
from logd.protocol.requests.metadata import Metadata
from logd.protocol.requests.produce_ack import ProduceAck, ProducePart
from logd.protocol.requests.repair import Repair
from logd.protocol.requests.replica_fetch import FlushedPart, ReplicaFetch, ReplicaFetchV1, ReplicaPart, ReplicaProgress
from logd.protocol.requests.replicas.describe_replicas import DescribeReplicas, DescribeReplicasV1
from logd.protocol.requests.replicas.operations import DrainBroker, ElectLeaders, ElectLeadersV1, Placed, Reassign
from logd.protocol.requests.replicas.replica_read import ReplicaRead, ReplicaReadV1

int16s = st.integers(-(1 << 15), (1 << 15) - 1)
int32s = st.integers(-(1 << 31), (1 << 31) - 1)
int64s = st.integers(-(1 << 63), (1 << 63) - 1)
texts = st.text(st.characters(codec="utf-8"), max_size=12)
sets = st.binary(max_size=40)


def _message(payload: bytes | None, key: bytes | None, timestamp: int | None, headers: Headers) -> Message:
    """Make a message; hypothesis would take the fields of the tuple under it for arguments."""
    return Message(payload, key=key, timestamp=timestamp, headers=headers)


_headers = st.lists(st.tuples(texts, st.none() | st.binary(max_size=12)), max_size=3)
_timestamps = st.none() | st.integers(0, (1 << 63) - 1)
plain_messages = st.binary(max_size=60).map(Message)
_valued = st.builds(
    _message,
    st.binary(max_size=60),
    key=st.none() | st.binary(max_size=12),
    timestamp=_timestamps,
    headers=_headers,
)
_tombstones = st.builds(_message, st.none(), key=st.binary(max_size=12), timestamp=_timestamps, headers=_headers)
messages = plain_messages | _valued | _tombstones
message_lists = st.lists(messages, max_size=8)
codecs = st.sampled_from(["gzip", "snappy", "zstd"])

_fetches = st.builds(Fetch, texts, int32s, int64s, int32s)
_produces = st.builds(Produce, texts, int32s, sets)
legacy_requests = st.one_of(
    _produces,
    _fetches,
    st.builds(MultiFetch, st.lists(_fetches, max_size=3).map(tuple)),
    st.builds(MultiProduce, st.lists(_produces, max_size=3).map(tuple)),
    st.builds(Offsets, texts, int32s, int64s, int32s),
)
_produce_parts = st.lists(st.builds(ProducePart, texts, int32s, int32s, st.booleans(), sets), max_size=3).map(tuple)
_fetch_parts = st.lists(st.builds(FetchPart, texts, int32s, int32s, int64s, int32s, st.booleans()), max_size=3)
int8s = st.integers(-128, 127)
_new_fields = st.lists(st.tuples(int32s, int32s, int32s, int64s, int32s, int8s), min_size=1, max_size=3)
_new_parts = st.dictionaries(texts, _new_fields, max_size=3).map(  # the parts of each topic go together
    lambda topics: tuple(NewPart(topic, *fields) for topic, parts in topics.items() for fields in parts)
)
_moved_parts = st.lists(st.builds(MovedPart, int32s, int64s, int32s, int8s), max_size=3).map(tuple)
_numbers = st.lists(int32s, max_size=3).map(tuple)
_replicas = st.lists(st.tuples(texts, int32s), max_size=3).map(tuple)
_replica_part_fields = (texts, int32s, int32s, int64s, int32s, int64s)
_replica_parts = st.lists(st.builds(ReplicaPart, *_replica_part_fields, st.just("")), max_size=3)
_replica_parts_v1 = st.lists(st.builds(ReplicaPart, *_replica_part_fields, texts), max_size=3)
_flushed_parts = st.lists(st.builds(FlushedPart, texts, int32s, int32s, int64s), max_size=3).map(tuple)
_placed = st.lists(st.builds(Placed, int32s, _numbers), max_size=3).map(tuple)
_pairs = st.lists(st.tuples(int32s, int32s), max_size=3).map(tuple)
native_requests = st.one_of(
    st.builds(Metadata, st.none() | st.lists(texts, max_size=3).map(tuple), st.booleans(), int32s),
    st.builds(ProduceAck, int16s, int32s, _produce_parts, int32s),
    st.builds(FetchWait, int32s, int32s, int32s, _fetch_parts.map(tuple), int32s),
    st.builds(FetchWaitV1, int32s, int32s, int32s, int32s, int32s, _new_parts, _moved_parts, _numbers, int32s),
    st.builds(CreateTopic, texts, int32s, st.dictionaries(texts, int64s, max_size=3), int32s),
    st.builds(CreateTopicV1, texts, int32s, st.dictionaries(texts, texts, max_size=3), int32s),
    st.builds(CreateTopicV2, texts, int32s, int32s, st.dictionaries(texts, texts, max_size=3), int32s),
    st.builds(ReplicaFetch, int32s, texts, int32s, int32s, _replica_parts.map(tuple), _replicas, int32s),
    st.builds(ReplicaFetchV1, int32s, texts, int32s, int32s, _replica_parts_v1.map(tuple), _replicas, int32s),
    st.builds(ReplicaProgress, _flushed_parts, int32s),
    st.builds(ReplicaRead, texts, int32s, int32s, int64s, int32s, int32s),
    st.builds(ReplicaReadV1, texts, texts, int32s, int32s, int64s, int32s, int32s),
    st.builds(AlterTopic, texts, texts, int32s, st.dictionaries(texts, texts, max_size=3), int32s),
    st.builds(Authenticate, texts, st.binary(max_size=40), int32s),
    st.builds(DeleteTopic, texts, int32s),
    st.builds(Reassign, texts, texts, _placed, _numbers, int32s, int64s, st.booleans(), st.booleans(), int32s),
    st.builds(ElectLeaders, texts, texts, _pairs, st.booleans(), int32s, st.just(False)),
    st.builds(ElectLeadersV1, texts, texts, _pairs, st.booleans(), int32s, st.booleans()),
    st.builds(DrainBroker, int32s, st.booleans(), int32s),
    st.builds(DescribeReplicas, texts, int32s),
    st.builds(DescribeReplicasV1, texts, int32s),
    st.builds(PrepareGroup, texts, st.booleans(), int32s),
    st.builds(Repair, texts, int32s, st.booleans(), st.booleans(), int64s, st.booleans(), int32s),
    st.builds(DescribeLog, texts, int32s, st.lists(int64s, max_size=3).map(tuple), int64s, int32s),
)
requests = legacy_requests | native_requests
