"""Refusals of requests about groups, with Kafka's codes: for want of a right, for names, and for errors of the tree."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from attrs import frozen

from logd.broker.kafka.error_codes import (
    COORDINATOR_NOT_AVAILABLE,
    INCONSISTENT_GROUP_PROTOCOL,
    INVALID_GROUP_ID,
    NOT_COORDINATOR,
    UNKNOWN_TOPIC_OR_PARTITION,
    kafka_code,
)
from logd.broker.security.requester import Requester
from logd.broker.security.rights import Rights
from logd.coord import paths
from logd.coord.errors import BadArguments, CoordinationError
from logd.coord.kafka_groups.claim import CoordinatedElsewhere, NativeMembers
from logd.coord.kafka_groups.positions import NoSuchTopic
from logd.errors import WireError
from logd.security.access_rules import Operation, ResourceType

#: Bytes of the longest name of a group.
_LONGEST_NAME = 250
#: The operations of Kafka's access lists on a group, with the rights that they need.
_OPERATIONS = {3: Operation.READ, 6: Operation.DELETE, 8: Operation.DESCRIBE}


class GroupRefused(Exception):
    """A request for a group that is not served; ``code`` is Kafka's."""

    def __init__(self, code: int, text: str = "") -> None:
        super().__init__(text)
        self.code = code


@frozen
class GroupRights:
    """The rights of one connection, as the handlers of requests about groups ask for them."""

    _rights: Rights

    @property
    def requester(self) -> Requester:
        """The client."""
        return self._rights.requester

    def check(self, operation: Operation, group: str) -> None:
        """Raise GroupRefused unless the client may do this with a group."""
        try:
            self._rights.check_group(operation, group)
        except WireError as error:
            raise GroupRefused(kafka_code(error), str(error)) from error

    def operations(self, group: str) -> set[int]:
        """Return Kafka's numbers (AclOperation) of what the client may do with a group."""
        may = self._rights.may
        return {number for number, each in _OPERATIONS.items() if may(each, ResourceType.GROUP, group)}

    def topic_error(self, operation: Operation, topic: str) -> int:
        """Return Kafka's code if the client may not do this with a topic, else 0."""
        refusal = self._rights.topic_refusal(operation, topic)
        return 0 if refusal is None else kafka_code(refusal)

    def may_describe_topic(self, topic: str) -> bool:
        """Return whether the positions in a topic may be shown."""
        return self._rights.may(Operation.DESCRIBE, ResourceType.TOPIC, topic)

    def may_list(self, group: str) -> bool:
        """Return whether a group may be listed."""
        return self._rights.may(Operation.DESCRIBE, ResourceType.CLUSTER) or self._rights.may(
            Operation.DESCRIBE, ResourceType.GROUP, group
        )


def check_name(group: str) -> None:
    """Raise GroupRefused if no group can have that name."""
    try:
        paths.group(group)
    except ValueError as error:
        raise GroupRefused(INVALID_GROUP_ID, str(error)) from None
    if len(group.encode()) > _LONGEST_NAME or not group.isprintable():
        raise GroupRefused(INVALID_GROUP_ID, f"the name of a group has at most {_LONGEST_NAME} printable bytes")


@contextmanager
def refusals() -> Iterator[None]:
    """Turn errors of the tree into GroupRefused."""
    try:
        yield
    except CoordinationError as error:
        raise GroupRefused(_code(error), str(error)) from error


def _code(error: CoordinationError) -> int:
    if isinstance(error, NativeMembers):
        return INCONSISTENT_GROUP_PROTOCOL
    if isinstance(error, NoSuchTopic):
        return UNKNOWN_TOPIC_OR_PARTITION
    if isinstance(error, BadArguments):
        return INVALID_GROUP_ID
    if isinstance(error, CoordinatedElsewhere):
        return NOT_COORDINATOR
    return COORDINATOR_NOT_AVAILABLE
