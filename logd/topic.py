"""Topic names, and topic entries: the values at ``/brokers/topics/<topic>`` and in topics.json."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from attrs import field, frozen

from logd.checkedjson import INT64_MAX, decimal, excerpt, whole_number
from logd.errors import InvalidTopic

#: The most characters of a topic's name.
LONGEST_TOPIC_NAME = 200
_NAME = re.compile(rf"[A-Za-z0-9._-]{{1,{LONGEST_TOPIC_NAME}}}\Z")
#: The settings that the first release knows. It would ignore all settings of a topic, also the time for which messages
#: are kept, if one of them were another or a text: so those stand in a member of their own, which it passes over.
_FIRST_SETTINGS = frozenset(
    (
        "segment.bytes",
        "segment.ms",
        "flush.messages",
        "flush.ms",
        "retention.ms",
        "retention.bytes",
        "index.bytes",
        "message.bytes",
    )
)
_LONGEST_TEXT = 1000
#: A topic's uuid is also used as a node's name.
_UUID = re.compile(r"[A-Za-z0-9_-]{1,100}\Z")


def check_topic_name(name: str) -> str:
    """Return ``name`` if it is allowed for a topic, else raise InvalidTopic. Raises TypeError for what is no text."""
    if not isinstance(name, str):
        raise TypeError(f"a topic's name is text (str), not {type(name).__name__}")
    if not _NAME.match(name) or name in (".", ".."):
        raise InvalidTopic(
            f"topic name {name[:210]!r} is not allowed: "
            "1 to 200 of the characters A-Z a-z 0-9 . _ - but not '.' or '..'"
        )
    return name


def is_uuid(value: object) -> bool:
    """Return whether ``value`` may be the uuid of a topic or a cluster."""
    return isinstance(value, str) and _UUID.match(value) is not None


@frozen
class TopicEntry:
    """One topic's entry: ``uuid`` tells topics of the same name apart, ``partitions`` lists the brokers of each.

    ``settings`` overrides the broker's defaults by dotted name, such as ``retention.ms``. ``kafka_settings`` are
    settings of Kafka's clients that change nothing here, as text: they are kept to be shown to them. They stand in a
    member of their own, which earlier releases pass over. ``created_by`` is the user for whose quota the topic counts,
    empty if none does.
    """

    uuid: str
    partitions: Mapping[int, tuple[int, ...]]
    settings: Mapping[str, int | str] = field(factory=dict)
    kafka_settings: Mapping[str, str] = field(factory=dict)
    created_by: str = ""
    #: True if every partition has a state in the coordination tree: it has several replicas, or had them once.
    replicated: bool = False

    @property
    def is_kept_whole(self) -> bool:
        """True if retention deletes nothing of the topic, by time or by size: its policy is to compact, and no more.

        As in Kafka: the last message of a key may be older than any retention, and Kafka Connect, Kafka Streams and
        schema registries have their state in such messages.
        """
        return {word.strip() for word in self.kafka_settings.get("cleanup.policy", "").split(",")} == {"compact"}

    def to_json(self) -> dict[str, Any]:
        """Return the stored value, in plain JSON types."""
        value: dict[str, Any] = {
            "uuid": self.uuid,
            "partitions": {str(number): list(brokers) for number, brokers in sorted(self.partitions.items())},
            "settings": {name: each for name, each in self.settings.items() if name in _FIRST_SETTINGS},
        }
        later = {name: each for name, each in self.settings.items() if name not in _FIRST_SETTINGS}
        if later:
            value["later_settings"] = later
        if self.kafka_settings:
            value["kafka_settings"] = dict(self.kafka_settings)
        if self.created_by:
            value["created_by"] = self.created_by
        if self.replicated:
            value["replicated"] = True
        return value

    @classmethod
    def from_json(cls, value: Any) -> TopicEntry:
        """Return the entry of a stored value from load_json. Raises ValueError alone, for any other value."""
        try:
            name, partitions = value["uuid"], value["partitions"]
            settings = {**value.get("settings", {}), **value.get("later_settings", {})}
            if not is_uuid(name):
                raise ValueError(f"{excerpt(name)} is not a topic's uuid")
            return cls(
                uuid=name,
                partitions={decimal(number): _brokers(listed) for number, listed in partitions.items()},
                settings={key: _setting(setting) for key, setting in settings.items()},
                kafka_settings={key: str(_setting(text)) for key, text in value.get("kafka_settings", {}).items()},
                created_by=str(_setting(value.get("created_by", ""))),
                replicated=_switch(value.get("replicated", False)),
            )
        except (KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"not a topic's entry ({error!r}): {excerpt(value)}") from error


def _brokers(value: object) -> tuple[int, ...]:
    if not isinstance(value, list):
        raise ValueError(f"{excerpt(value)} is not a list of brokers")
    return tuple(map(whole_number, value))


def _switch(value: object) -> bool:
    if not isinstance(value, bool):
        raise ValueError(f"{excerpt(value)} is not true or false")
    return value


def _setting(value: object) -> int | str:
    if type(value) is int and abs(value) <= INT64_MAX:
        return value
    if isinstance(value, str) and len(value) <= _LONGEST_TEXT and value.isprintable():
        return value
    raise ValueError(f"{excerpt(value)} is not a setting's value")


class TopicPartition(NamedTuple):
    """One partition of one topic: the topic's name and the partition's number in the cluster."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"topic {self.topic!r}, partition {self.partition}"
