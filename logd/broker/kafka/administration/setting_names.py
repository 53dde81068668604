"""Settings of topics by Kafka's names: those that are ours under another name, and those that are kept to be shown.

Kafka Connect, Kafka Streams and schema registries set some of them on the topics they make, and stop at their start if
the broker does not know them or does not show them again.
"""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from enum import IntEnum

from attrs import frozen

from logd.config import LogSettings
from logd.config.kinds import Kind, OneOf, Whole
from logd.config.log import LARGEST_BYTES
from logd.config.setting import Setting, settings_of
from logd.errors import ConfigurationError

_LONG_MAX = (1 << 63) - 1
_INT_MAX = (1 << 31) - 1
_LONGEST_TEXT = 1000


class ConfigType(IntEnum):
    """Types of settings, with the numbers of DescribeConfigs."""

    BOOLEAN = 1
    STRING = 2
    INT = 3
    LONG = 5
    DOUBLE = 6
    LIST = 7


@frozen
class Listed:
    """Words separated by commas, each one of ``words``; any text if there are none."""

    words: tuple[str, ...] = ()

    @property
    def allowed(self) -> str:
        """See Kind."""
        return f"one or more of {', '.join(self.words)}, separated by commas" if self.words else "a list"

    def accepts(self, value: object) -> bool:
        """See Kind."""
        if not isinstance(value, str) or len(value) > _LONGEST_TEXT or not value.isprintable():
            return False
        return not self.words or all(word.strip() in self.words for word in value.split(","))

    def parse(self, text: str) -> object:
        """See Kind."""
        return text


@frozen
class Fraction:
    """A number from 0 to 1."""

    allowed: str = "a number from 0 to 1"

    def accepts(self, value: object) -> bool:
        """See Kind."""
        return isinstance(value, float) and 0 <= value <= 1

    def parse(self, text: str) -> object:
        """See Kind."""
        return float(text)


@frozen
class KafkaSetting:
    """One setting of a topic by Kafka's name.

    With a ``native`` setting, a change of one is a change of the other. The others are checked by ``kind`` and kept,
    to be shown, and most of them have no effect.
    """

    name: str
    type: ConfigType
    #: Kafka's name for the broker's default; "" if it has none.
    broker_name: str
    meaning: str
    native: Setting | None = None
    kind: Kind | None = None
    default: str = ""
    has_effect: bool = True

    def parse(self, text: str) -> int | str:
        """Return the value to keep. Raises ConfigurationError."""
        if self.native is not None:
            return self._native(self.native, text.strip())
        assert self.kind is not None
        text = text.strip().lower() if self.type is ConfigType.BOOLEAN else text.strip()
        Setting(self.name, self.kind, self.default, self.meaning).parse(text)
        return text

    def _native(self, native: Setting, text: str) -> int | str:
        """Return the native value. A number that is more than ours can be means without a limit, where that exists."""
        row = Setting(self.name, native.kind, native.default, self.meaning)
        kind = native.kind
        if isinstance(kind, Whole) and text.isascii() and text.isdigit() and kind.maximum < int(text) <= _LONG_MAX:
            return -1 if kind.none else kind.maximum
        value: int | str = row.parse(text)  # type: ignore[assignment]  # a log's settings are numbers and texts
        return value

    def text_of(self, value: int | str) -> str:
        """Return a native value as Kafka's clients know it."""
        unlimited = self.native is not None and self.native.name in _LONG_MAX_IS_NONE and value == -1
        return str(_LONG_MAX) if unlimited else str(value)


#: The native settings for which Kafka says "never" by its largest number.
_LONG_MAX_IS_NONE = frozenset(("flush.messages", "flush.ms"))
_NATIVE = {row.name: row for row in settings_of(LogSettings)}


def _ours(name: str, kind: ConfigType, native: str, broker_name: str) -> KafkaSetting:
    row = _NATIVE[native]
    return KafkaSetting(name, kind, broker_name, row.meaning, row)


def _kept(
    name: str,
    kind_of_value: ConfigType,
    default: str,
    kind: Kind,
    meaning: str,
    broker_name: str = "",
) -> KafkaSetting:
    return KafkaSetting(name, kind_of_value, broker_name, f"{meaning}{NO_EFFECT}", None, kind, default, False)


#: The end of the meaning of a setting that is kept and has none.
NO_EFFECT = " Kept, without an effect."
_BOOLEAN, _STRING, _INT, _LONG, _DOUBLE, _LIST = ConfigType
_SWITCH = OneOf(("true", "false"))
_ANY_LONG = Whole(0, _LONG_MAX)

#: All of them, by name.
KAFKA_SETTINGS: Mapping[str, KafkaSetting] = {
    row.name: row
    for row in (
        _ours("flush.messages", _LONG, "flush.messages", "log.flush.interval.messages"),
        _ours("flush.ms", _LONG, "flush.ms", "log.flush.interval.ms"),
        _ours("index.interval.bytes", _INT, "index.bytes", "log.index.interval.bytes"),
        _ours("max.message.bytes", _INT, "batch.bytes", "message.max.bytes"),
        _ours("message.bytes", _INT, "message.bytes", ""),
        _ours("message.format", _STRING, "message.format", ""),
        _ours("min.insync.replicas", _INT, "min.insync.replicas", "min.insync.replicas"),
        _ours("retention.bytes", _LONG, "retention.bytes", "log.retention.bytes"),
        _ours("retention.ms", _LONG, "retention.ms", "log.retention.ms"),
        _ours("segment.bytes", _INT, "segment.bytes", "log.segment.bytes"),
        _ours("segment.ms", _LONG, "segment.ms", "log.roll.ms"),
        KafkaSetting(
            "cleanup.policy",
            _LIST,
            "log.cleanup.policy",
            "With compact alone retention deletes nothing, by time or by size. There is no compaction yet: messages "
            "whose keys have later ones are not removed. With delete, also beside compact, retention deletes segments.",
            None,
            Listed(("delete", "compact")),
            "delete",
        ),
        _kept(
            "compression.type",
            _STRING,
            "producer",
            OneOf(("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer")),
            "Batches stay as their producers compressed them.",
            "compression.type",
        ),
        _kept("compression.gzip.level", _INT, "-1", Whole(-1, 9), "See compression.type."),
        _kept("compression.lz4.level", _INT, "9", Whole(1, 17), "See compression.type."),
        _kept("compression.zstd.level", _INT, "3", Whole(-131072, 22), "See compression.type."),
        _kept("delete.retention.ms", _LONG, "86400000", _ANY_LONG, "Of compaction."),
        _kept("file.delete.delay.ms", _LONG, "60000", _ANY_LONG, "Files go at once; answers under way keep theirs."),
        _kept("follower.replication.throttled.replicas", _LIST, "", Listed(), "There is no throttle by topic."),
        _kept("leader.replication.throttled.replicas", _LIST, "", Listed(), "There is no throttle by topic."),
        _kept("local.retention.bytes", _LONG, "-2", Whole(-2, LARGEST_BYTES), "Of tiered storage."),
        _kept("local.retention.ms", _LONG, "-2", Whole(-2, _LONG_MAX), "Of tiered storage."),
        _kept("max.compaction.lag.ms", _LONG, str(_LONG_MAX), Whole(1, _LONG_MAX), "Of compaction."),
        _kept("message.downconversion.enable", _BOOLEAN, "true", _SWITCH, "Old clients get what they can read."),
        _kept("message.format.version", _STRING, "3.0-IV1", Listed(), "Of old releases of Kafka."),
        _kept("message.timestamp.after.max.ms", _LONG, str(_LONG_MAX), _ANY_LONG, "Times are not checked."),
        _kept("message.timestamp.before.max.ms", _LONG, str(_LONG_MAX), _ANY_LONG, "Times are not checked."),
        _kept("message.timestamp.difference.max.ms", _LONG, str(_LONG_MAX), _ANY_LONG, "Times are not checked."),
        _kept(
            "message.timestamp.type",
            _STRING,
            "CreateTime",
            OneOf(("CreateTime", "LogAppendTime")),
            "Messages keep the times of their producers.",
            "log.message.timestamp.type",
        ),
        _kept("min.cleanable.dirty.ratio", _DOUBLE, "0.5", Fraction(), "Of compaction."),
        _kept("min.compaction.lag.ms", _LONG, "0", _ANY_LONG, "Of compaction."),
        _kept("preallocate", _BOOLEAN, "false", _SWITCH, "Segments grow as they are written."),
        _kept("remote.storage.enable", _BOOLEAN, "false", OneOf(("false",)), "There is no tiered storage."),
        _kept("segment.index.bytes", _INT, "10485760", Whole(0, _INT_MAX), "Indexes are as large as they need to be."),
        _kept("segment.jitter.ms", _LONG, "0", _ANY_LONG, "Segments begin without a delay."),
        _kept(
            "unclean.leader.election.enable",
            _BOOLEAN,
            "false",
            _SWITCH,
            "A replica that may lack messages leads only by `logd elect --unclean`, or ElectLeaders of type 1.",
        ),
    )
}  # fmt: skip
#: Settings of ours that Kafka does not have: a replacement of all settings (AlterConfigs) leaves them.
OURS_ALONE = frozenset(("message.bytes", "message.format"))


def setting_named(name: str) -> KafkaSetting:
    """Return a setting by Kafka's name. Raises ConfigurationError, which has similar names."""
    found = KAFKA_SETTINGS.get(name)
    if found is None:
        near = get_close_matches(name, KAFKA_SETTINGS, n=3)
        hint = f"did you mean {' or '.join(near)}?" if near else "a description of any topic's settings has all of them"
        raise ConfigurationError(f"topics have no setting {name[:100]!r}; {hint}")
    return found


@frozen
class TopicSettings:
    """The settings of one topic: those that logs act on, by native names, and those that are kept, by Kafka's."""

    native: Mapping[str, int | str]
    kept: Mapping[str, str]

    def get(self, row: KafkaSetting) -> str | None:
        """Return a setting as Kafka's clients know it, None if the topic does not have it."""
        if row.native is None:
            return self.kept.get(row.name)
        value = self.native.get(row.native.name)
        return None if value is None else row.text_of(value)

    def with_setting(self, row: KafkaSetting, text: str | None) -> TopicSettings:
        """Return the settings with one more, or without it if ``text`` is None. Raises ConfigurationError."""
        native, kept = dict(self.native), dict(self.kept)
        if row.native is not None:
            native.pop(row.native.name, None)
            kept.pop(row.name, None)  # of a release that kept it without an effect
            if text is not None:
                native[row.native.name] = row.parse(text)
        else:
            kept.pop(row.name, None)
            if text is not None:
                kept[row.name] = str(row.parse(text))
        return TopicSettings(native, kept)


def parse_settings(texts: Mapping[str, str | None]) -> TopicSettings:
    """Return the settings of a new topic; None is the default. Raises ConfigurationError."""
    settings = TopicSettings({}, {})
    for name, text in texts.items():
        settings = settings.with_setting(setting_named(name), text)
    return settings
