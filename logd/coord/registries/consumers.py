"""The consumer registry: the live consumers of a group, with the topics and the number of streams of each.

A consumer is an ephemeral node ``/consumers/<group>/ids/<consumer>`` with a value such as::

    {"topics": {"clicks": 2}, "patterns": [["web-.*", 1]], "version": 1}

A pattern is a regular expression that must match the whole of a topic's name (patterns.py). **A node of one name never
changes its value**: a consumer that subscribes to more registers under another name. So each name is read only once,
and a rebalance in a group of a thousand reads only the new names.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import NamedTuple

from attrs import field, frozen
from twisted.internet.defer import Deferred

from logd.checkedjson import excerpt, load_json
from logd.coord import paths
from logd.coord.ephemeral import create_ephemeral
from logd.coord.errors import NoNode
from logd.coord.interfaces import ICoordination
from logd.coord.kafka_coordinator import read_coordinator
from logd.coord.registries.patterns import compile_pattern
from logd.errors import ConfigurationError, InvalidTopic
from logd.topic import check_topic_name

VERSION = 1
#: Bounds, because every member makes a name for each stream of each member, and matches every pattern.
MOST_STREAMS = 1000
MOST_PATTERNS = 50


class PatternStreams(NamedTuple):
    """A subscription to every topic whose whole name matches, including topics created later."""

    pattern: str
    streams: int

    def matches(self, topic: str) -> bool:
        """Return whether the pattern matches the topic's name."""
        return _matches(self.pattern, topic)


@frozen
class Subscription:
    """The topics that a consumer reads: streams for each topic named, and for each topic that a pattern matches.

    A name takes precedence over patterns; of several patterns that match, the first counts.
    """

    topics: Mapping[str, int] = field(factory=dict)
    patterns: tuple[PatternStreams, ...] = ()

    def streams_of(self, topic: str) -> int:
        """Return the number of streams that read the topic."""
        named = self.topics.get(topic)
        if named is not None:
            return named
        for pattern in self.patterns:
            if pattern.matches(topic):
                return pattern.streams
        return 0

    def to_bytes(self) -> bytes:
        """The node's value."""
        value = {
            "topics": dict(sorted(self.topics.items())),
            "patterns": [list(pattern) for pattern in self.patterns],
            "version": VERSION,
        }
        return json.dumps(value, separators=(",", ":")).encode()

    @classmethod
    def from_bytes(cls, data: bytes) -> Subscription:
        """Decode a node's value; raise ValueError for an invalid one."""
        try:
            value = load_json(data)
            topics = {check_topic_name(topic): check_streams(streams) for topic, streams in value["topics"].items()}
            listed = value.get("patterns", [])
            if len(listed) > MOST_PATTERNS:
                raise ValueError(f"{len(listed)} patterns; allowed are {MOST_PATTERNS}")
            patterns = tuple(PatternStreams(text, check_streams(n)) for text, n in listed)
            for pattern in patterns:
                compile_pattern(pattern.pattern)
        except (ValueError, TypeError, KeyError, AttributeError, InvalidTopic) as error:
            raise ValueError(f"not a consumer's entry ({error}): {excerpt(data)}") from error
        return cls(topics, patterns)


def pattern_text(pattern: re.Pattern[str]) -> str:
    """Return a compiled expression as equivalent text; raise ConfigurationError when there is none."""
    text = pattern.pattern
    if re.compile(text).flags != pattern.flags:
        letters = {re.I: "i", re.M: "m", re.S: "s", re.X: "x", re.A: "a"}
        text = f"(?{''.join(letter for flag, letter in letters.items() if pattern.flags & flag)}){text}"
    try:
        same = re.compile(text).flags == pattern.flags
    except re.error:
        same = False
    if not same:
        raise ConfigurationError(
            f"the pattern {pattern.pattern!r} with flags {pattern.flags} cannot be stored as text; "
            "allowed are flags written inside it, such as '(?i)web-.*'"
        )
    try:
        compile_pattern(text)
    except ValueError as error:
        raise ConfigurationError(
            f"the pattern {text!r} is not allowed: {error}; every member of the group has to match it in bounded time"
        ) from error
    return text


def stream_id(consumer: str, index: int) -> str:
    """Return the id of one of a consumer's streams, as it appears in the owner nodes."""
    return f"{consumer}-{index:d}"


def stream_ids(consumers: Mapping[str, Subscription], topic: str) -> Iterator[str]:
    """Yield the streams of a group that read a topic (the paper's C_T), in no order."""
    for consumer, subscription in consumers.items():
        for index in range(subscription.streams_of(topic)):
            yield stream_id(consumer, index)


class ConsumerRegistry:
    """The live consumers of one group. Calls fail with a CoordinationError, as ICoordination's do."""

    def __init__(self, coordination: ICoordination, group: str) -> None:
        """Raises ValueError for a group name that cannot be a node's name."""
        self._coordination = coordination
        self.group = group
        self.path = paths.group_consumers(group)

    def register(self, consumer: str, subscription: Subscription) -> Deferred[None]:
        """Create the consumer's ephemeral node, or find that it exists; a node of an earlier session is replaced.

        Fails with HeldElsewhere (a NodeExists) when another consumer has that id.
        """
        path = paths.group_consumer(self.group, consumer)
        return create_ephemeral(self._coordination, path, subscription.to_bytes())

    def deregister(self, consumer: str) -> Deferred[None]:
        """Remove the consumer's node."""
        return self._coordination.delete(paths.group_consumer(self.group, consumer))

    async def coordinator(self) -> int | None:
        """Return the broker that coordinates the group's Kafka clients; None if there are no such members."""
        return await read_coordinator(self._coordination, self.group)

    async def read(self, consumer: str) -> Subscription | None:
        """Read a consumer's subscription; None when it is gone. Raises ValueError for an invalid value."""
        try:
            data, _ = await self._coordination.get(paths.group_consumer(self.group, consumer))
        except NoNode:
            return None
        return _parsed(data)


@lru_cache(1024)
def _parsed(data: bytes) -> Subscription:
    """Decode a subscription. Cached: most consumers of a group have the same, so a thousand entries share one."""
    return Subscription.from_bytes(data)


@lru_cache(1 << 16)
def _matches(pattern: str, topic: str) -> bool:
    return compile_pattern(pattern).matches(topic)


def check_streams(streams: object) -> int:
    """Return the number of streams of one consumer for a topic; raise ValueError for an invalid number."""
    if type(streams) is not int or not 1 <= streams <= MOST_STREAMS:
        raise ValueError(f"{excerpt(streams)} is no number of streams; allowed is 1 to {MOST_STREAMS}")
    return streams
