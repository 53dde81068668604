"""Targets for a fuzzer: each takes any bytes, and checks the invariants of frames, conversations or sets.

The first byte says how the rest is cut into chunks. hypothesis runs them in the suite (test_fuzzing.py); a
coverage-guided fuzzer can call them as they are.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from logd.errors import InvalidMessage, MessageTooLarge, ProtocolViolation
from logd.protocol import loops
from logd.protocol.conversation.client import ClientConversation
from logd.protocol.conversation.framing import FrameBuffer
from logd.protocol.conversation.server import ServerConversation
from logd.protocol.requests.alter_topic import AlterTopic
from logd.protocol.requests.authenticate import Authenticate
from logd.protocol.requests.create_delete_topic import CreateTopicV1, CreateTopicV2
from logd.protocol.requests.groups.prepare_group import PrepareGroup
from logd.protocol.requests.legacy_requests import Fetch, MultiFetch, Offsets
from logd.protocol.requests.metadata import Metadata, MetadataV1
from logd.protocol.requests.produce_ack import ProduceAck, ProducePart
from logd.protocol.requests.replica_fetch import FlushedPart, ReplicaFetch, ReplicaFetchV1, ReplicaPart, ReplicaProgress
from logd.protocol.requests.replicas.describe_replicas import DescribeReplicas, DescribeReplicasV1
from logd.protocol.requests.replicas.operations import DrainBroker, ElectLeaders, ElectLeadersV1, Placed, Reassign
from logd.protocol.requests.replicas.replica_read import ReplicaRead, ReplicaReadV1
from logd.protocol.requests.requests import encode_request

LIMIT = 4096
#: The requests that the client has sent, three times, when the bytes arrive.
ASKED = (
    Fetch("t", 0, 0, 100),
    MultiFetch((Fetch("t", 0, 0, 100),)),
    Offsets("t", 0, -1, 1),
    Metadata(("t",)),
    MetadataV1(("t",)),
    CreateTopicV1("t", 1, {"message.format": "0.7"}),
    CreateTopicV2("t", 1, 3, {"message.format": "0.7"}),
    ReplicaFetch(1, "uuid", 0, 1024, (ReplicaPart("t", 0, 1, 0, -1, 0),), (("t", 1),)),
    ReplicaFetchV1(1, "uuid", 0, 1024, (ReplicaPart("t", 0, 1, 0, -1, 0, "uuid"),), (("t", 1),)),
    ReplicaProgress((FlushedPart("t", 0, 1, 5),)),
    ReplicaRead("t", 0, 1, 0, 100),
    ReplicaReadV1("t", "uuid", 0, 1, 0, 100),
    AlterTopic("t", "uuid", 2, {"retention.ms": "5"}),
    Authenticate("SCRAM-SHA-256", b"n,,n=ann,r=abc"),
    PrepareGroup("g"),
    Reassign("t", "uuid", (Placed(0, (1, 2)),), (1, 2), 2, 1000),
    ElectLeaders("t", "uuid", ((0, 1),), True),
    ElectLeadersV1("t", "uuid", ((0, 1),), withdraw=True),
    DrainBroker(1, True),
    DescribeReplicas("t"),
    DescribeReplicasV1("t"),
    ProduceAck(1, 0, (ProducePart("t", 0, 0, False, b""),)),
)


def _chunks(data: bytes) -> Iterator[bytes]:
    """Cut into pieces of 1 to 64 bytes."""
    size = data[0] % 64 + 1 if data else 1
    for at in range(1, len(data), size):
        yield data[at : at + size]


def frames(data: bytes) -> None:
    """Check that frames do not depend on chunks, and that the buffer keeps no more than has arrived."""
    pieces = list(_chunks(data))

    def feed(chunks: list[bytes]) -> tuple[list[bytes], str]:
        buffer = FrameBuffer(LIMIT)
        got = []
        received = used = 0
        try:
            for chunk in chunks:
                received += len(chunk)
                for frame, start, stop in buffer.feed(chunk):
                    got.append(bytes(frame[start:stop]))
                    used += 4 + stop - start
                assert buffer.kept_bytes == received - used, (buffer.kept_bytes, received, used)
                assert buffer.kept_bytes < 4 + LIMIT
        except ProtocolViolation as violation:
            return got, str(violation)
        return got, ""

    assert feed(pieces) == feed([b"".join(pieces)])


def server(data: bytes) -> None:
    """Check that requests do not depend on chunks, and are written again to frames of the same size."""
    pieces = list(_chunks(data))

    def converse(chunks: list[bytes]) -> tuple[list[Any], str, int]:
        conversation = ServerConversation(LIMIT)
        received = [each for chunk in chunks for each in conversation.receive_data(chunk)]
        requests = [request for request, _ in received]
        unanswered = conversation.unanswered
        assert unanswered == sum(token is not None for _, token in received)
        assert conversation.close() == []
        return requests, str(conversation.violation or ""), unanswered

    requests, violation, unanswered = converse(pieces)
    whole = b"".join(pieces)
    assert (requests, violation, unanswered) == converse([whole])
    assert unanswered <= len(requests)
    at = 0
    for request in requests:
        frame = whole[at : at + 4 + int.from_bytes(whole[at : at + 4], "big")]
        at += len(frame)
        if hasattr(request, "version"):
            continue  # a request of an unknown version cannot be written again
        again = b"".join(encode_request(request))
        assert len(again) == len(frame), (again, frame)


def client(data: bytes) -> None:
    """Check that responses do not depend on chunks, and that each answers another request that was sent."""
    pieces = list(_chunks(data))

    def converse(chunks: list[bytes]) -> tuple[list[Any], str, int]:
        conversation = ClientConversation(LIMIT)
        sent = {}
        for request in ASKED * 3:
            request = request._replace()
            conversation.send(request)
            sent[id(request)] = request
        got = []
        for chunk in chunks:
            for asked, response in conversation.receive_data(chunk):
                assert sent.pop(id(asked), None) is asked, asked
                got.append((asked, response))
        assert conversation.outstanding <= len(ASKED) * 3 - len(got)
        return got, str(conversation.violation or ""), conversation.outstanding

    assert converse(pieces) == converse([b"".join(pieces)])


def sets(data: bytes, loops: Any = loops) -> None:
    """Check that a consumer can read a set that the broker takes, to its end."""
    try:
        count = loops.check_set(data, LIMIT).messages
    except (InvalidMessage, MessageTooLarge):
        count = -1
    decoded = loops.decode_set(data, 1000, max_decompressed=LIMIT)
    while decoded.opened is not None and decoded.error is None:
        at, position = decoded.consumed, 1000 + decoded.consumed
        decoded = loops.decode_set(data, position, begin=at, max_decompressed=LIMIT, opened=decoded.opened)
    assert decoded.consumed <= len(data)
    assert decoded.position >= 1000
    positions = [message.id for message in decoded.messages]
    assert positions == sorted(positions)
    if count >= 0 and decoded.error is None:
        assert decoded.consumed == len(data)
        assert decoded.position == 1000 + len(data)
    if count >= 0 and decoded.error is not None:
        # The broker checks only the outside of a wrapper or batch; its messages are checked by consumers.
        assert _magics(data) & {1, 3}


def _magics(data: bytes) -> set[int]:
    found = set()
    at = 0
    while at + 5 <= len(data):
        found.add(data[at + 4])
        at += 4 + int.from_bytes(data[at : at + 4], "big")
    return found


TARGETS = {"frames": frames, "server": server, "client": client, "sets": sets}
