"""Subscriptions and assignments of the consumers of a group, as far as the broker reads or writes them.

ConsumerProtocolSubscription   int16 version | list of str topic | bytes of the client's own | more in later versions
ConsumerProtocolAssignment     int16 version | list of (str topic, list of int32) | bytes of the client's own
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress

from logd.broker.kafka.groups.group import KafkaGroup
from logd.deferreds.fair_turns import FairTurns
from logd.errors import ProtocolViolation
from logd.protocol.requests.fields import INT16, INT32, Reader, encode_int32s, encode_text

#: The protocol type of consumers.
CONSUMER = "consumer"
#: Names that are looked at before it is asked whether the turn is over: half a millisecond.
_STEP_NAMES = 1000


async def subscribed_topics(group: KafkaGroup, among: Iterable[str], turns: FairTurns) -> set[str]:
    """Return those of some topics that the members of a group of consumers read; of what cannot be read, none.

    A client may name half a million topics in a megabyte, so this takes turns.
    """
    wanted = {topic.encode(): topic for topic in among}
    found: set[str] = set()
    for member in group.roster:
        for protocol in member.asked.protocols:
            for number, name in enumerate(_topics(protocol.metadata)):
                if number % _STEP_NAMES == 0 and turns.over:
                    await turns.rest()
                if name in wanted:
                    found.add(wanted[name])
    return found


def _topics(metadata: bytes) -> Iterator[bytes]:
    with suppress(ProtocolViolation):
        reader = Reader(metadata, 0, len(metadata))
        reader.unpack(INT16)
        for _ in range(reader.int32()):
            (length,) = reader.unpack(INT16)
            yield reader.take(length)


def encode_subscription(topics: Iterable[str]) -> bytes:
    """Return what a consumer of these topics would tell its leader."""
    names = [encode_text(topic) for topic in topics]
    return b"".join((INT16.pack(0), INT32.pack(len(names)), *names, INT32.pack(-1)))


def encode_assignment(partitions: Mapping[str, Iterable[int]]) -> bytes:
    """Return what a leader would tell a consumer that is to read these partitions."""
    parts = [encode_text(topic) + encode_int32s(sorted(numbers)) for topic, numbers in sorted(partitions.items())]
    return b"".join((INT16.pack(0), INT32.pack(len(parts)), *parts, INT32.pack(-1)))
