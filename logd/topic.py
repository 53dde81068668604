"""A topic's name, and what is kept about it: the value at ``/brokers/topics/<topic>`` or in topics.json."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from attrs import field, frozen

from logd.errors import InvalidTopic

_NAME = re.compile(r"[A-Za-z0-9._-]{1,200}\Z")


def check_topic_name(name: str) -> str:
    """Return ``name`` if a topic may be called so, else raise InvalidTopic."""
    if not _NAME.match(name) or name in (".", ".."):
        raise InvalidTopic(
            f"topic name {name[:210]!r} is not allowed: "
            "1 to 200 of the characters A-Z a-z 0-9 . _ - but not '.' or '..'"
        )
    return name


@frozen
class TopicEntry:
    """One topic: ``uuid`` tells it from another of the same name, ``partitions`` lists the brokers of each partition.

    ``settings`` overrides the broker's defaults by their dotted names, such as ``retention.ms``.
    """

    uuid: str
    partitions: Mapping[int, tuple[int, ...]]
    settings: Mapping[str, int] = field(factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Return the value as it is stored (plain JSON types)."""
        return {
            "uuid": self.uuid,
            "partitions": {str(number): list(brokers) for number, brokers in sorted(self.partitions.items())},
            "settings": dict(self.settings),
        }

    @classmethod
    def from_json(cls, value: Any) -> TopicEntry:
        """Read a stored value; raise ValueError when it is not one."""
        try:
            return cls(
                uuid=str(value["uuid"]),
                partitions={
                    int(number): tuple(int(b) for b in brokers) for number, brokers in value["partitions"].items()
                },
                settings={str(key): int(setting) for key, setting in value.get("settings", {}).items()},
            )
        except (KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"not a topic's entry: {value!r}") from error


class TopicPartition(NamedTuple):
    """One partition of one topic, by its numbers in the cluster."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"topic {self.topic!r}, partition {self.partition}"
