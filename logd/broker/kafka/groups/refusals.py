"""Refusals of requests about groups, with Kafka's codes; errors of the tree become such."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from logd.broker.kafka.error_codes import (
    COORDINATOR_NOT_AVAILABLE,
    INCONSISTENT_GROUP_PROTOCOL,
    INVALID_GROUP_ID,
    NOT_COORDINATOR,
    UNKNOWN_TOPIC_OR_PARTITION,
)
from logd.coord.errors import BadArguments, CoordinationError
from logd.coord.kafka_groups.claim import CoordinatedElsewhere, NativeMembers
from logd.coord.kafka_groups.positions import NoSuchTopic


class GroupRefused(Exception):
    """A request for a group that is not served; ``code`` is Kafka's."""

    def __init__(self, code: int, text: str = "") -> None:
        super().__init__(text)
        self.code = code


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
