"""A subscription: topics by name, topics that match a pattern, or single partitions."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping

from attrs import frozen

from logd.errors import ConfigurationError
from logd.topic import check_topic_name


@frozen
class SourceSubscription:
    """The topics and partitions to read; exactly one field is set."""

    topics: tuple[str, ...] | None = None
    pattern: str | None = None
    #: Topic -> its partitions.
    assigned: Mapping[str, tuple[int, ...]] | None = None

    @property
    def names(self) -> tuple[str, ...] | None:
        """The topics whose metadata are requested; None for all."""
        if self.assigned is not None:
            return tuple(self.assigned)
        return self.topics

    def chosen(self, topic: str, partitions: Iterable[int]) -> tuple[int, ...]:
        """Return the partitions of a topic that are read, ascending; none when the topic is not subscribed."""
        if self.pattern is not None and not re.fullmatch(self.pattern, topic):
            return ()
        if self.topics is not None and topic not in self.topics:
            return ()
        if self.assigned is not None:
            wanted = self.assigned.get(topic, ())
            return tuple(number for number in sorted(partitions) if number in wanted)
        return tuple(sorted(partitions))


def parse_subscription(given: Mapping[str, str | None]) -> SourceSubscription:
    """Parse the options ``subscribe``, ``subscribePattern`` and ``assign``, exactly one of which is given.

    Raises ConfigurationError.
    """
    set_ones = {name: text for name, text in given.items() if text is not None}
    if len(set_ones) != 1:
        what = f"{' and '.join(set_ones)} exclude each other" if set_ones else "no topics are given"
        raise ConfigurationError(f"{what}: give one of the options {', '.join(given)}")
    ((name, text),) = set_ones.items()
    try:
        if name == "subscribe":
            topics = tuple(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))
            if not topics:  # or nothing would be read, day by day
                raise ValueError("allowed are names of topics, separated by commas")
            return SourceSubscription(topics=tuple(check_topic_name(topic) for topic in topics))
        if name == "subscribePattern":
            re.compile(text)
            return SourceSubscription(pattern=text)
        return SourceSubscription(assigned=_parse_assignment(text))
    except (re.error, ValueError) as error:
        raise ConfigurationError(f"option {name} = {text[:200]!r} is not allowed: {error}") from None


def _parse_assignment(text: str) -> dict[str, tuple[int, ...]]:
    allowed = 'allowed is JSON such as {"topic": [0, 1]}'
    try:
        value = json.loads(text)
    except ValueError:
        raise ValueError(allowed) from None
    if not isinstance(value, dict) or not value:
        raise ValueError(allowed)
    for topic, partitions in value.items():
        check_topic_name(topic)
        if not isinstance(partitions, list) or not all(type(each) is int and each >= 0 for each in partitions):
            raise ValueError(allowed)
    return {topic: tuple(sorted(set(partitions))) for topic, partitions in value.items()}
