"""Settings of a partition's log; a topic may override each of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import attrs

from logd.config.kinds import Names, OneOf, Whole
from logd.config.names import unknown
from logd.config.setting import setting, settings_of

DAY_MS = 24 * 60 * 60 * 1000
#: The longest timer: epoll takes its timeout as an int of milliseconds, which overflows at 24.8 days.
LONGEST_TIMER_MS = 7 * DAY_MS
LONGEST_AGE_MS = 100 * 365 * DAY_MS
LARGEST_BYTES = 1 << 50
#: The most bytes of a batch, its length prefix and pad included, unless set: Kafka's default of max.message.bytes.
DEFAULT_BATCH_BYTES = 1_048_588
#: The values of message.format: any message, or only what clients of Kafka 0.7 can read.
ANY_FORMAT = "any"
LEGACY_FORMAT = "0.7"


@attrs.frozen(kw_only=True)
class LogSettings:
    """Settings of a log's segments, flushes and retention. Raises ConfigurationError for a value not allowed."""

    segment_bytes: int = setting(
        "segment.bytes",
        Whole(1, LARGEST_BYTES, "bytes"),
        1 << 30,
        "An append begins a new segment when the last one is larger than this.",
    )
    segment_ms: int = setting(
        "segment.ms",
        Whole(1, LONGEST_AGE_MS, "milliseconds"),
        7 * DAY_MS,
        "An append begins a new segment when the last one is older than this.",
    )
    flush_messages: int = setting(
        "flush.messages",
        Whole(1, 1 << 40, none="no such number"),
        -1,
        "A partition is flushed to disk when it has this many unflushed messages, and not before; only then are "
        "they visible to consumers. With neither this nor `flush.ms` each append is flushed once the disk is free.",
    )
    flush_ms: int = setting(
        "flush.ms",
        Whole(0, LONGEST_TIMER_MS, "milliseconds", none="no such time"),
        -1,
        "A partition is flushed to disk when its oldest unflushed message has waited this long, and not before; 0 is "
        "at once. Of this and `flush.messages`, whichever is reached first counts. A produce with acks -1, a "
        "full segment, half of `unflushed.bytes`, a stop, a broker that begins to lead, and replicas that follow a "
        "leader do not wait for either.",
    )
    retention_ms: int = setting(
        "retention.ms",
        Whole(0, LONGEST_AGE_MS, "milliseconds", none="keeping for ever"),
        7 * DAY_MS,
        "A closed segment is deleted when its newest message is older than this.",
    )
    retention_bytes: int = setting(
        "retention.bytes",
        Whole(0, LARGEST_BYTES, "bytes", none="no limit"),
        -1,
        "The oldest closed segments of a partition are deleted while it holds more than this.",
    )
    min_insync_replicas: int = setting(
        "min.insync.replicas",
        Whole(1, 100),
        1,
        "With fewer replicas in sync a partition takes no messages with acks -1, and shows no new ones.",
    )
    index_bytes: int = setting(
        "index.bytes",
        Whole(1, 1 << 30, "bytes"),
        4096,
        "The index stores about one entry's position, with its time, for this many bytes of log.",
    )
    message_bytes: int = setting(
        "message.bytes",
        Whole(1, 1 << 30, "bytes"),
        1_000_000,
        "A larger message (or compressed wrapper) is refused.",
    )
    batch_bytes: int = setting(
        "batch.bytes",
        Whole(61, 1 << 30, "bytes"),  # the head of a batch alone
        DEFAULT_BATCH_BYTES,
        "A larger batch of messages under one checksum is refused. Kafka's max.message.bytes.",
    )

    message_format: str = setting(
        "message.format",
        OneOf((ANY_FORMAT, LEGACY_FORMAT)),
        ANY_FORMAT,
        "With 0.7 only messages that clients of Kafka 0.7 can read are taken: no keys, times and headers, no batches, "
        "no zstd. Topics that a produce of 0.7 creates have 0.7.",
    )

    mirrored_from: str = setting(
        "mirrored.from",
        Names("uuids of clusters"),
        "",
        "Of a mirrored topic: the clusters that its messages have passed, oldest first. `logd mirror` sets it, and "
        "mirrors no topic to a cluster that stands there.",
    )

    @staticmethod
    def parse(texts: Mapping[str, str]) -> dict[str, int | str]:
        """Return the values of settings given as text. Raises ConfigurationError for a bad name or value."""
        LogSettings.check_names(texts)
        rows = {row.name: row for row in settings_of(LogSettings)}
        values: dict[str, Any] = {name: rows[name].parse(text) for name, text in texts.items()}
        return values

    @staticmethod
    def check_names(names: Iterable[str]) -> None:
        """Raise ConfigurationError for a name that is no setting of a log."""
        known = [row.name for row in settings_of(LogSettings)]
        for name in names:
            if name not in known:
                raise unknown(name, known)

    @property
    def entry_limits(self) -> tuple[int, int, bool]:
        """The most bytes of a message, and of a batch, and whether only messages of 0.7 are taken; see check_set."""
        return self.message_bytes, self.batch_bytes, self.message_format == LEGACY_FORMAT

    def overridden(self, overrides: Mapping[str, object]) -> LogSettings:
        """Return a copy with settings replaced, by dotted names. Raises ConfigurationError for a bad name or value."""
        LogSettings.check_names(overrides)
        rows = {row.name: row for row in settings_of(LogSettings)}
        return attrs.evolve(self, **{rows[name].field_name: value for name, value in overrides.items()})  # type: ignore[arg-type]  # the fields' validators check them
