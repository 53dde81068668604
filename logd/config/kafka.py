"""Settings of a broker's listener for clients of today's Kafka."""

from __future__ import annotations

import attrs

from logd.config.kinds import Endpoint, Whole
from logd.config.setting import setting


@attrs.frozen(kw_only=True)
class KafkaSettings:
    """All settings whose names begin with ``kafka.``. Raises ConfigurationError for a value that is not allowed."""

    kafka_listen: str | None = setting(
        "kafka.listen",
        Endpoint("tcp:9092:interface=127.0.0.1"),
        None,
        "The endpoint that clients of today's Kafka connect to (extra `kafka`); by default none.",
        option="kafka-listen",
    )
    kafka_groups_max: int = setting(
        "kafka.groups.max",
        Whole(1, 1 << 20, "groups"),
        10_000,
        "The most groups with members among today's Kafka clients that this broker coordinates at a time.",
    )
    kafka_groups_members_max: int = setting(
        "kafka.groups.members.max",
        Whole(1, 1 << 20, "members"),
        1000,
        "The most members of such a group.",
    )
    kafka_groups_bytes: int = setting(
        "kafka.groups.bytes",
        Whole(1, 1 << 40, "bytes"),
        64 << 20,
        "The most memory for the members of all such groups: their subscriptions and assignments.",
    )
    kafka_groups_delay_ms: int = setting(
        "kafka.groups.delay.ms",
        Whole(0, 60_000, "ms"),
        300,
        "The time for which an empty group waits for further members, after each that joins, before its partitions are "
        "shared out.",
    )
    kafka_groups_session_min_ms: int = setting(
        "kafka.groups.session.min.ms",
        Whole(1, 1 << 31, "ms"),
        1000,
        "The shortest session timeout that a member may ask for.",
    )
    kafka_groups_session_max_ms: int = setting(
        "kafka.groups.session.max.ms",
        Whole(1, 1 << 31, "ms"),
        1_800_000,
        "The longest session timeout that a member may ask for.",
    )
