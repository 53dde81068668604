"""Mutations of what clients of today's Kafka are told."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any
from unittest import mock

from logd.protocol.kafka import produce
from logd.protocol.kafka.produce import KafkaProducedPart


def acknowledge_the_next_offset() -> AbstractContextManager[Any]:
    """The answer to Kafka's Produce names the offset behind that of its first message."""
    encode = produce.encode_produced

    def behind(parts: tuple[KafkaProducedPart, ...], version: int) -> bytes:
        return encode(tuple([part._replace(base_offset=part.base_offset + 1) for part in parts]), version)

    return mock.patch.object(produce, "encode_produced", behind)


#: The mutations of this module, by name.
KAFKA_MUTATIONS: dict[str, Callable[[], AbstractContextManager[Any]]] = {
    each.__name__: each for each in (acknowledge_the_next_offset,)
}
