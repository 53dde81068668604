"""Errors of logd as the codes of Kafka's protocol."""

from __future__ import annotations

from logd import errors
from logd.broker.topics.directory import TopicDirectory

#: Kafka's codes by the class of the error. Classes that are not here, and bugs, are UNKNOWN_SERVER_ERROR.
_CODES: dict[type[BaseException], int] = {
    errors.OffsetOutOfRange: 1,  # OFFSET_OUT_OF_RANGE
    errors.InvalidMessage: 2,  # CORRUPT_MESSAGE
    errors.WrongPartition: 3,  # UNKNOWN_TOPIC_OR_PARTITION
    errors.UnknownTopic: 3,
    errors.TopicCreationDisabled: 3,
    errors.NoLeader: 5,  # LEADER_NOT_AVAILABLE
    errors.PartitionOffline: 5,
    errors.NotLeader: 6,  # NOT_LEADER_OR_FOLLOWER
    errors.BrokerStopping: 6,  # NOT_LEADER_OR_FOLLOWER: ask for the leader again
    errors.RequestTimedOut: 7,  # REQUEST_TIMED_OUT
    errors.MessageTooLarge: 10,  # MESSAGE_TOO_LARGE
    errors.CoordinationUnavailable: 15,  # COORDINATOR_NOT_AVAILABLE
    errors.InvalidTopic: 17,  # INVALID_TOPIC_EXCEPTION
    errors.NotEnoughReplicas: 19,  # NOT_ENOUGH_REPLICAS
    errors.UnsupportedVersion: 35,  # UNSUPPORTED_VERSION
    errors.TopicExists: 36,  # TOPIC_ALREADY_EXISTS
    errors.InvalidRequest: 42,  # INVALID_REQUEST
    errors.TopicAuthorizationFailed: 29,  # TOPIC_AUTHORIZATION_FAILED
    errors.GroupAuthorizationFailed: 30,  # GROUP_AUTHORIZATION_FAILED
    errors.ClusterAuthorizationFailed: 31,  # CLUSTER_AUTHORIZATION_FAILED
    errors.QuotaExceeded: 44,  # POLICY_VIOLATION
    errors.StorageFull: 56,  # KAFKA_STORAGE_ERROR
    errors.AuthenticationFailed: 58,  # SASL_AUTHENTICATION_FAILED
    errors.StaleLeaderEpoch: 74,  # FENCED_LEADER_EPOCH
}
UNKNOWN_SERVER_ERROR = -1
CORRUPT_MESSAGE = 2
UNKNOWN_TOPIC_OR_PARTITION = 3
LEADER_NOT_AVAILABLE = 5
NOT_LEADER_OR_FOLLOWER = 6
REQUEST_TIMED_OUT = 7
MESSAGE_TOO_LARGE = 10
OFFSET_METADATA_TOO_LARGE = 12
COORDINATOR_LOAD_IN_PROGRESS = 14
COORDINATOR_NOT_AVAILABLE = 15
NOT_COORDINATOR = 16
INVALID_TOPIC_EXCEPTION = 17
RECORD_LIST_TOO_LARGE = 18
INVALID_REQUIRED_ACKS = 21
ILLEGAL_GENERATION = 22
INCONSISTENT_GROUP_PROTOCOL = 23
INVALID_GROUP_ID = 24
UNKNOWN_MEMBER_ID = 25
INVALID_SESSION_TIMEOUT = 26
REBALANCE_IN_PROGRESS = 27
UNSUPPORTED_SASL_MECHANISM = 33
ILLEGAL_SASL_STATE = 34
UNSUPPORTED_VERSION = 35
INVALID_PARTITIONS = 37
INVALID_REPLICATION_FACTOR = 38
INVALID_REPLICA_ASSIGNMENT = 39
INVALID_CONFIG = 40
NOT_CONTROLLER = 41
INVALID_REQUEST = 42
POLICY_VIOLATION = 44
OUT_OF_ORDER_SEQUENCE_NUMBER = 45
DUPLICATE_SEQUENCE_NUMBER = 46
INVALID_PRODUCER_EPOCH = 47
KAFKA_STORAGE_ERROR = 56
NON_EMPTY_GROUP = 68
GROUP_ID_NOT_FOUND = 69
FETCH_SESSION_ID_NOT_FOUND = 70
INVALID_FETCH_SESSION_EPOCH = 71
TRANSACTIONAL_ID_AUTHORIZATION_FAILED = 53
TOPIC_AUTHORIZATION_FAILED = 29
CLUSTER_AUTHORIZATION_FAILED = 31
TOPIC_DELETION_DISABLED = 73
FENCED_LEADER_EPOCH = 74
UNKNOWN_LEADER_EPOCH = 75
UNSUPPORTED_COMPRESSION_TYPE = 76
MEMBER_ID_REQUIRED = 79
PREFERRED_LEADER_NOT_AVAILABLE = 80
GROUP_MAX_SIZE_REACHED = 81
FENCED_INSTANCE_ID = 82
ELIGIBLE_LEADERS_NOT_AVAILABLE = 83
ELECTION_NOT_NEEDED = 84
NO_REASSIGNMENT_IN_PROGRESS = 85
GROUP_SUBSCRIBED_TO_TOPIC = 86
INVALID_RECORD = 87
RESOURCE_NOT_FOUND = 91
DUPLICATE_RESOURCE = 92
UNACCEPTABLE_CREDENTIAL = 93
MISMATCHED_ENDPOINT_TYPE = 114

#: The codes in a Fetch in place of others, for which Java's consumer has no remedy there: its application would fail.
_FETCH_CODES = {LEADER_NOT_AVAILABLE: KAFKA_STORAGE_ERROR, COORDINATOR_NOT_AVAILABLE: NOT_LEADER_OR_FOLLOWER}


def kafka_code(error: BaseException) -> int:
    """Return the code of an error."""
    return _CODES.get(type(error), UNKNOWN_SERVER_ERROR)


def kafka_code_of(code: int) -> int:
    """Return Kafka's code for a code of logd's own protocol; 0 for 0."""
    return kafka_code(errors.error_for_code(code)) if code else 0


def fetch_code_of(code: int) -> int:
    """Return Kafka's code in the answer to a Fetch for a code of logd's own protocol; 0 for 0."""
    found = kafka_code_of(code)
    return _FETCH_CODES.get(found, found)


def partition_code(topics: TopicDirectory, topic: str, partition: int, error: errors.WireError) -> int:
    """Return the code of an error about one partition: another broker's makes a client ask for the leader again."""
    entry = topics.get(topic) if isinstance(error, errors.WrongPartition) else None
    return NOT_LEADER_OR_FOLLOWER if entry is not None and partition in entry.partitions else kafka_code(error)
