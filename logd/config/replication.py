"""Settings of replication."""

from __future__ import annotations

import re

import attrs

from logd.config.kinds import Names, PemFile, Whole
from logd.config.setting import setting

_RACK = re.compile(r"[A-Za-z0-9._-]{1,100}\Z")


@attrs.frozen(kw_only=True)
class ReplicationSettings:
    """Copies of partitions on several brokers. Raises ConfigurationError."""

    default_replicas: int = setting(
        "default.replicas",
        Whole(1, 100),
        1,
        "The number of brokers that store each partition of a topic which is created without one.",
    )
    replica_lag_ms: int = setting(
        "replica.lag.ms",
        Whole(100, 3_600_000, "milliseconds"),
        10_000,
        "A replica that has not caught up with its leader for this long is not in sync any more: producers with "
        "acks -1 do not wait for it.",
    )
    replica_fetch_bytes: int = setting(
        "replica.fetch.bytes",
        Whole(1024, 64 << 20, "bytes"),
        1 << 20,
        "The most bytes that a follower asks for at a time. It asks for more where entries are so large that much of "
        "an answer would be part of one.",
    )
    replica_catchup_bytes_per_second: int = setting(
        "replica.catchup.bytes.per.second",
        Whole(1024, 1 << 40, "bytes", none="no limit"),
        -1,
        "The most bytes a second that this broker, as a leader, sends to replicas that are not in sync, so that "
        "producers keep their latency while a replica catches up.",
    )
    leader_balance_ms: int = setting(
        "leader.balance.ms",
        Whole(1000, 86_400_000, "milliseconds", none="leaders stay where they are"),
        30_000,
        "How long the first replica of a partition has to be in sync before it leads again.",
    )
    replica_tls_authorities: str | None = setting(
        "replica.tls.authorities",
        PemFile("a file of certificates in PEM"),
        None,
        "The authorities that sign the certificates of brokers, for copying from brokers whose `listen` has TLS "
        "(ssl:); by default those of the system.",
    )
    rack: str = setting(
        "rack",
        Names("a name", _RACK),
        "",
        "Where this broker stands, such as a rack or a zone: the replicas of a partition are spread over different "
        "ones.",
    )
