"""The table of all requests: a row for each, with its number, its response, and the functions that write and read both.

A request, or another version of one, is added by a module with its records and functions, a row here, and a handler in
the broker's table (``logd/broker/requests/session.py``).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from logd.protocol.requests import (
    alter_topic,
    authenticate,
    create_delete_topic,
    describe_log,
    fetch_session,
    fetch_wait,
    legacy_requests,
    legacy_responses,
    metadata,
    produce_ack,
    repair,
    replica_fetch,
)
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
from logd.protocol.requests.describe_log import DescribeLog, DescribeLogResponse
from logd.protocol.requests.fetch_session import FetchWaitResponseV1, FetchWaitV1
from logd.protocol.requests.fetch_wait import FetchWait, FetchWaitResponse
from logd.protocol.requests.fields import Piece
from logd.protocol.requests.groups import prepare_group
from logd.protocol.requests.groups.prepare_group import PrepareGroup, PrepareGroupResponse
from logd.protocol.requests.legacy_requests import Fetch, MultiFetch, MultiProduce, Offsets, Produce
from logd.protocol.requests.legacy_responses import FetchResponse, MultiFetchResponse, OffsetsResponse
from logd.protocol.requests.metadata import Metadata, MetadataResponse, MetadataResponseV1, MetadataV1
from logd.protocol.requests.produce_ack import ProduceAck, ProduceAckResponse
from logd.protocol.requests.repair import Repair, RepairResponse
from logd.protocol.requests.replica_fetch import (
    ReplicaFetch,
    ReplicaFetchResponse,
    ReplicaFetchV1,
    ReplicaProgress,
)
from logd.protocol.requests.replicas import describe_replicas, operations, replica_read
from logd.protocol.requests.replicas.describe_replicas import (
    DescribeReplicas,
    DescribeReplicasResponse,
    DescribeReplicasResponseV1,
    DescribeReplicasV1,
)
from logd.protocol.requests.replicas.operations import (
    DrainBroker,
    DrainBrokerResponse,
    ElectLeaders,
    ElectLeadersResponse,
    ElectLeadersResponseV1,
    ElectLeadersV1,
    Reassign,
    ReassignResponse,
)
from logd.protocol.requests.replicas.replica_read import ReplicaRead, ReplicaReadResponse, ReplicaReadV1


class Api(NamedTuple):
    """One kind of request.

    The functions write and read bodies only. The exception are the responses of 0.7, which are written as whole frames
    and read from the error code on. A request without a response has None in its place.
    """

    number: int
    request: type
    response: type | None
    encode_request: Callable[[Any], list[bytes]]
    #: ``read_request(reader)`` for 0.7, ``read_request(reader, correlation_id)`` for ours.
    read_request: Callable[..., Any]
    encode_response: Callable[[Any], list[Piece]] | None = None
    #: ``read_response(reader, request)`` for 0.7, since the request has the number of parts; else without it.
    read_response: Callable[..., Any] | None = None
    #: The version of a request of ours; each has a row, and a record, of its own.
    version: int = 0


#: The requests of Kafka 0.7, which has no others.
LEGACY_APIS = (
    Api(0, Produce, None, legacy_requests.encode_produce, legacy_requests.read_produce),
    Api(
        1,
        Fetch,
        FetchResponse,
        legacy_requests.encode_fetch,
        legacy_requests.read_fetch,
        legacy_responses.encode_fetch_response,
        legacy_responses.read_fetch_response,
    ),
    Api(
        2,
        MultiFetch,
        MultiFetchResponse,
        legacy_requests.encode_multi_fetch,
        legacy_requests.read_multi_fetch,
        legacy_responses.encode_multi_fetch_response,
        legacy_responses.read_multi_fetch_response,
    ),
    Api(3, MultiProduce, None, legacy_requests.encode_multi_produce, legacy_requests.read_multi_produce),
    Api(
        4,
        Offsets,
        OffsetsResponse,
        legacy_requests.encode_offsets,
        legacy_requests.read_offsets,
        legacy_responses.encode_offsets_response,
        legacy_responses.read_offsets_response,
    ),
)

#: Our own requests; those from 32 on are between brokers.
NATIVE_APIS = (
    Api(
        16,
        Metadata,
        MetadataResponse,
        metadata.encode_metadata,
        metadata.read_metadata,
        metadata.encode_metadata_response,
        metadata.read_metadata_response,
    ),
    Api(
        16,
        MetadataV1,
        MetadataResponseV1,
        metadata.encode_metadata,
        metadata.read_metadata_v1,
        metadata.encode_metadata_response_v1,
        metadata.read_metadata_response_v1,
        version=1,
    ),
    Api(
        17,
        ProduceAck,
        ProduceAckResponse,
        produce_ack.encode_produce_ack,
        produce_ack.read_produce_ack,
        produce_ack.encode_produce_ack_response,
        produce_ack.read_produce_ack_response,
    ),
    Api(
        18,
        FetchWait,
        FetchWaitResponse,
        fetch_wait.encode_fetch_wait,
        fetch_wait.read_fetch_wait,
        fetch_wait.encode_fetch_wait_response,
        fetch_wait.read_fetch_wait_response,
    ),
    Api(
        18,
        FetchWaitV1,
        FetchWaitResponseV1,
        fetch_session.encode_fetch_session,
        fetch_session.read_fetch_session,
        fetch_session.encode_fetch_session_response,
        fetch_session.read_fetch_session_response,
        version=1,
    ),
    Api(
        19,
        CreateTopic,
        CreateTopicResponse,
        create_delete_topic.encode_create_topic,
        create_delete_topic.read_create_topic,
        create_delete_topic.encode_create_topic_response,
        create_delete_topic.read_create_topic_response,
    ),
    Api(
        19,
        CreateTopicV1,
        CreateTopicResponseV1,
        create_delete_topic.encode_create_topic_v1,
        create_delete_topic.read_create_topic_v1,
        create_delete_topic.encode_create_topic_response,
        create_delete_topic.read_create_topic_response_v1,
        version=1,
    ),
    Api(
        19,
        CreateTopicV2,
        CreateTopicResponseV2,
        create_delete_topic.encode_create_topic_v2,
        create_delete_topic.read_create_topic_v2,
        create_delete_topic.encode_create_topic_response,
        create_delete_topic.read_create_topic_response_v2,
        version=2,
    ),
    Api(
        20,
        DeleteTopic,
        DeleteTopicResponse,
        create_delete_topic.encode_delete_topic,
        create_delete_topic.read_delete_topic,
        create_delete_topic.encode_delete_topic_response,
        create_delete_topic.read_delete_topic_response,
    ),
    Api(
        21,
        DescribeLog,
        DescribeLogResponse,
        describe_log.encode_describe_log,
        describe_log.read_describe_log,
        describe_log.encode_describe_log_response,
        describe_log.read_describe_log_response,
    ),
    Api(
        22,
        Repair,
        RepairResponse,
        repair.encode_repair,
        repair.read_repair,
        repair.encode_repair_response,
        repair.read_repair_response,
    ),
    Api(
        23,
        AlterTopic,
        AlterTopicResponse,
        alter_topic.encode_alter_topic,
        alter_topic.read_alter_topic,
        alter_topic.encode_alter_topic_response,
        alter_topic.read_alter_topic_response,
    ),
    Api(
        24,
        Authenticate,
        AuthenticateResponse,
        authenticate.encode_authenticate,
        authenticate.read_authenticate,
        authenticate.encode_authenticate_response,
        authenticate.read_authenticate_response,
    ),
    Api(
        25,
        PrepareGroup,
        PrepareGroupResponse,
        prepare_group.encode_prepare_group,
        prepare_group.read_prepare_group,
        prepare_group.encode_prepare_group_response,
        prepare_group.read_prepare_group_response,
    ),
    Api(
        26,
        Reassign,
        ReassignResponse,
        operations.encode_reassign,
        operations.read_reassign,
        operations.encode_reassign_response,
        operations.read_reassign_response,
    ),
    Api(
        27,
        ElectLeaders,
        ElectLeadersResponse,
        operations.encode_elect_leaders,
        operations.read_elect_leaders,
        operations.encode_elect_leaders_response,
        operations.read_elect_leaders_response,
    ),
    Api(
        27,
        ElectLeadersV1,
        ElectLeadersResponseV1,
        operations.encode_elect_leaders_v1,
        operations.read_elect_leaders_v1,
        operations.encode_elect_leaders_response_v1,
        operations.read_elect_leaders_response_v1,
        version=1,
    ),
    Api(
        28,
        DrainBroker,
        DrainBrokerResponse,
        operations.encode_drain_broker,
        operations.read_drain_broker,
        operations.encode_drain_broker_response,
        operations.read_drain_broker_response,
    ),
    Api(
        29,
        DescribeReplicas,
        DescribeReplicasResponse,
        describe_replicas.encode_describe_replicas,
        describe_replicas.read_describe_replicas,
        describe_replicas.encode_describe_replicas_response,
        describe_replicas.read_describe_replicas_response,
    ),
    Api(
        29,
        DescribeReplicasV1,
        DescribeReplicasResponseV1,
        describe_replicas.encode_describe_replicas,
        describe_replicas.read_describe_replicas_v1,
        describe_replicas.encode_describe_replicas_response_v1,
        describe_replicas.read_describe_replicas_response_v1,
        version=1,
    ),
    Api(
        32,
        ReplicaFetch,
        ReplicaFetchResponse,
        replica_fetch.encode_replica_fetch,
        replica_fetch.read_replica_fetch,
        replica_fetch.encode_replica_fetch_response,
        replica_fetch.read_replica_fetch_response,
    ),
    Api(
        32,
        ReplicaFetchV1,
        ReplicaFetchResponse,
        replica_fetch.encode_replica_fetch_v1,
        replica_fetch.read_replica_fetch_v1,
        replica_fetch.encode_replica_fetch_response,
        replica_fetch.read_replica_fetch_response,
        version=1,
    ),
    Api(33, ReplicaProgress, None, replica_fetch.encode_replica_progress, replica_fetch.read_replica_progress),
    Api(
        34,
        ReplicaRead,
        ReplicaReadResponse,
        replica_read.encode_replica_read,
        replica_read.read_replica_read,
        replica_read.encode_replica_read_response,
        replica_read.read_replica_read_response,
    ),
    Api(
        34,
        ReplicaReadV1,
        ReplicaReadResponse,
        replica_read.encode_replica_read_v1,
        replica_read.read_replica_read_v1,
        replica_read.encode_replica_read_response,
        replica_read.read_replica_read_response,
        version=1,
    ),
)

LEGACY_BY_NUMBER: dict[int, Api] = {api.number: api for api in LEGACY_APIS}
LEGACY_BY_REQUEST: dict[type, Api] = {api.request: api for api in LEGACY_APIS}
LEGACY_BY_RESPONSE: dict[type, Api] = {api.response: api for api in LEGACY_APIS if api.response is not None}
NATIVE_BY_NUMBER: dict[tuple[int, int], Api] = {(api.number, api.version): api for api in NATIVE_APIS}
#: The numbers of our own requests, whatever their version.
NATIVE_NUMBERS = frozenset(api.number for api in NATIVE_APIS)
NATIVE_BY_REQUEST: dict[type, Api] = {api.request: api for api in NATIVE_APIS}
NATIVE_BY_RESPONSE: dict[type, Api] = {api.response: api for api in NATIVE_APIS if api.response is not None}
