"""Topic names, and topic entries: the values at ``/brokers/topics/<topic>`` and in topics.json."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from attrs import field, frozen

from logd.checkedjson import INT64_MAX, decimal, excerpt, whole_number
from logd.errors import InvalidTopic

_NAME = re.compile(r"[A-Za-z0-9._-]{1,200}\Z")
#: A topic's uuid is also used as a node's name.
_UUID = re.compile(r"[A-Za-z0-9_-]{1,100}\Z")


def check_topic_name(name: str) -> str:
    """Return ``name`` if it is allowed for a topic, else raise InvalidTopic."""
    if not _NAME.match(name) or name in (".", ".."):
        raise InvalidTopic(
            f"topic name {name[:210]!r} is not allowed: "
            "1 to 200 of the characters A-Z a-z 0-9 . _ - but not '.' or '..'"
        )
    return name


@frozen
class TopicEntry:
    """One topic's entry: ``uuid`` tells topics of the same name apart, ``partitions`` lists the brokers of each.

    ``settings`` overrides the broker's defaults by dotted name, such as ``retention.ms``.
    """

    uuid: str
    partitions: Mapping[int, tuple[int, ...]]
    settings: Mapping[str, int] = field(factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Return the stored value, in plain JSON types."""
        return {
            "uuid": self.uuid,
            "partitions": {str(number): list(brokers) for number, brokers in sorted(self.partitions.items())},
            "settings": dict(self.settings),
        }

    @classmethod
    def from_json(cls, value: Any) -> TopicEntry:
        """Return the entry of a stored value from load_json. Raises ValueError alone, for any other value."""
        try:
            name, partitions, settings = value["uuid"], value["partitions"], value.get("settings", {})
            if not isinstance(name, str) or not _UUID.match(name):
                raise ValueError(f"{excerpt(name)} is not a topic's uuid")
            return cls(
                uuid=name,
                partitions={decimal(number): _brokers(listed) for number, listed in partitions.items()},
                settings={key: _setting(setting) for key, setting in settings.items()},
            )
        except (KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"not a topic's entry ({error!r}): {excerpt(value)}") from error


def _brokers(value: object) -> tuple[int, ...]:
    if not isinstance(value, list):
        raise ValueError(f"{excerpt(value)} is not a list of brokers")
    return tuple(map(whole_number, value))


def _setting(value: object) -> int:
    if type(value) is not int or abs(value) > INT64_MAX:
        raise ValueError(f"{excerpt(value)} is not a setting's value")
    return value


class TopicPartition(NamedTuple):
    """One partition of one topic: the topic's name and the partition's number in the cluster."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"topic {self.topic!r}, partition {self.partition}"
