"""Settings of a broker."""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from logd.config.kafka import KafkaSettings
from logd.config.kinds import Address, Endpoint, Folder, Hosts, Switch, SwitchOr, Whole
from logd.config.legacy import LegacySettings
from logd.config.log import DAY_MS, DEFAULT_BATCH_BYTES, LONGEST_TIMER_MS, LogSettings
from logd.config.replication import ReplicationSettings
from logd.config.security import SecuritySettings
from logd.config.setting import setting
from logd.config.zookeeper import ZooKeeperSecurity
from logd.errors import ConfigurationError

#: Room in a frame for the fields around a message set: type, version, topic (202 bytes), numbers, lengths.
FRAME_ROOM = 1024
_MEBIBYTE = 1 << 20
#: Room beside the largest frame for the further bytes of one read of its connection.
READ_ROOM = _MEBIBYTE


@attrs.frozen(kw_only=True)
class BrokerSettings:
    """All settings of a broker. Raises ConfigurationError for a value that is not allowed."""

    data: str = setting(
        "data", Folder(), None, "The data directory; created when it is missing.", required=True, option=True
    )
    listen: str = setting(
        "listen",
        Endpoint("tcp:6667:interface=127.0.0.1"),
        "tcp:6667:interface=127.0.0.1",
        "The endpoint that clients connect to.",
        option=True,
    )
    advertise: str | None = setting(
        "advertise",
        Address(),
        None,
        "The address that clients are told to connect to; by default the address of `listen`.",
        option=True,
    )
    id: int | None = setting(
        "id",
        Whole(0, (1 << 31) - 1),
        None,
        "The broker's permanent number; by default the one stored in the data directory, and 0 in a new one.",
        option=True,
    )
    http: str | None = setting(
        "http",
        Endpoint("tcp:8080:interface=127.0.0.1"),
        None,
        "The endpoint that serves /health, /metrics, the console and the schema registry; by default none.",
        option=True,
    )
    schema_registry_enabled: bool = setting(
        "schema.registry.enabled",
        Switch(),
        True,
        "Serve the schema registry at `http`: whoever can connect there can register and delete schemas.",
    )
    zookeeper_hosts: str | None = setting(
        "zookeeper.hosts",
        Hosts(),
        None,
        "The servers of a coordination tree that several brokers share: ZooKeeper or `logd zookeeper`; by default this "
        "broker serves a tree of its own.",
        option="zookeeper",
    )
    zookeeper_listen: str = setting(
        "zookeeper.listen",
        Endpoint("tcp:2181:interface=127.0.0.1"),
        "tcp:2181:interface=127.0.0.1",
        "The endpoint of the broker's own coordination tree, when `zookeeper.hosts` is not given. Where other machines "
        "can connect, clients need the credentials in `zookeeper.digest.file`, or those of a user.",
        option="zookeeper-listen",
    )
    zookeeper_nodes_max: int = setting(
        "zookeeper.nodes.max",
        Whole(1, 1 << 31, "nodes"),
        1_000_000,
        "The most nodes that the broker's own coordination tree may have; creating more fails until some are deleted.",
    )
    zookeeper_nodes_bytes: int = setting(
        "zookeeper.nodes.bytes",
        Whole(1, 1 << 50, "bytes"),
        1024 * _MEBIBYTE,
        "The most memory for the nodes of the broker's own coordination tree, estimated: per node 600 bytes and its "
        "path, data and access list.",
    )
    zookeeper_session_ms: int = setting(
        "zookeeper.session.ms",
        Whole(100, DAY_MS, "milliseconds"),
        6_000,
        "The session timeout: a broker that is silent for this time is considered dead, and others lead in its place. "
        "A ZooKeeper with its own defaults grants 4000 at least.",
    )
    zookeeper_timeout_ms: int = setting(
        "zookeeper.timeout.ms",
        Whole(1, DAY_MS, "milliseconds"),
        10_000,
        "The timeout of a call on the coordination tree. At a start, also the time that clients wait for the tree "
        "before the broker serves without it.",
    )
    frame_bytes: int = setting(
        "frame.bytes",
        Whole(FRAME_ROOM, 1 << 30, "bytes"),
        16 * _MEBIBYTE,
        "A request that is larger closes its connection.",
    )
    frames_bytes: int = setting(
        "frames.bytes",
        Whole(FRAME_ROOM, 1 << 50, "bytes"),
        128 * _MEBIBYTE,
        "The most memory for requests that are incomplete or not yet handled, over all connections. Above it the "
        "broker closes, of the connections it reads, the one whose request began first.",
    )
    frame_ms: int = setting(
        "frame.ms",
        Whole(1, LONGEST_TIMER_MS, "milliseconds", none="no limit"),
        60_000,
        "A connection is closed when a request is still incomplete this long after its first byte.",
    )
    send_ms: int = setting(
        "send.ms",
        Whole(1, LONGEST_TIMER_MS, "milliseconds", none="no limit"),
        120_000,
        "A connection is closed when its client reads nothing for this time while answers are waiting.",
    )
    idle_ms: int = setting(
        "idle.ms",
        Whole(1, LONGEST_TIMER_MS, "milliseconds", none="no limit"),
        -1,
        "A connection is closed when it has sent nothing for this time and is waiting for no answer.",
    )
    fetch_max_bytes: int = setting(
        "fetch.max.bytes",
        Whole(1, 1 << 30, "bytes"),
        16 * _MEBIBYTE,
        "The most bytes of messages in the answer to one fetch, whatever the fetch asks for.",
    )
    unflushed_bytes: int = setting(
        "unflushed.bytes",
        Whole(1, 1 << 50, "bytes"),
        256 * _MEBIBYTE,
        "Producers are paused while more than this is appended and not yet flushed, over all partitions.",
    )
    connections_max: int = setting(
        "connections.max",
        Whole(1, 1_000_000),
        10_000,
        "The most open connections; further ones are closed as soon as they are made.",
    )
    connections_address_max: int = setting(
        "connections.address.max",
        Whole(1, 1_000_000, none="no limit"),
        5_000,
        "The most open connections from one address; further ones are closed as soon as they are made.",
    )
    connection_requests: int = setting(
        "connection.requests",
        Whole(1, 100_000),
        100,
        "A connection is not read while this many of its requests are waiting for answers.",
    )
    flush_threads: int = setting(
        "flush.threads", Whole(1, 64), 2, "Threads that flush: the most fdatasync calls at a time."
    )
    flush_together: bool = setting(
        "flush.together",
        Switch(),
        True,
        "Let many partitions that wait for the disk share one sync of its whole file system (syncfs), where "
        "that is safe (ext4 and xfs on Linux 5.17 and later) and measured to be faster. It also writes the data of "
        "other programs on that file system.",
    )
    io_threads: int = setting("io.threads", Whole(1, 256), 4, "Threads that read what is not in the page cache.")
    topics_create: bool | str = setting(
        "topics.create",
        SwitchOr("explicit"),
        True,
        "The requests that create a topic: with `true` a produce to a missing topic, and CreateTopic "
        "(`logd topics create`); with `explicit` only CreateTopic (Kafka's CreateTopics); with `false` none.",
    )
    administration_requests: bool = setting(
        "administration.requests",
        Switch(),
        True,
        "Accept requests that change and delete topics, delete messages, and repair. Every client that can connect may "
        "send them.",
    )
    legacy_refused_close: bool = setting(
        "legacy.refused.close",
        Switch(),
        False,
        "Close the connection of a refused produce of Kafka 0.7, as Kafka 0.7.2 did: such a request has no "
        "answer, so its producer can get no other sign. Messages sent after the refused set are lost.",
    )
    topics_partitions: int = setting(
        "topics.partitions", Whole(1, 10_000), 1, "Number of partitions of a topic that a produce creates."
    )
    topics_max: int = setting(
        "topics.max",
        Whole(1, 1_000_000),
        10_000,
        "The most partitions of all topics together; beyond it no topic is created.",
    )
    retention_check_ms: int = setting(
        "retention.check.ms",
        Whole(1, LONGEST_TIMER_MS, "milliseconds"),
        300_000,
        "The interval between checks for old segments.",
    )
    checkpoint_ms: int = setting(
        "checkpoint.ms",
        Whole(1, LONGEST_TIMER_MS, "milliseconds"),
        60_000,
        "The interval between checkpoints, which record the sound part of each log; a crash costs a scan of the rest.",
    )
    verify_bytes_per_second: int = setting(
        "verify.bytes.per.second",
        Whole(0, 1 << 40, "bytes"),
        1 << 20,
        "The bytes of stored messages whose checksums are verified in a second, from the disk and in the background, "
        "so that damage is found while another replica or a backup still has the bytes; 0: none.",
    )
    verify_ms: int = setting(
        "verify.ms",
        Whole(100, LONGEST_TIMER_MS, "milliseconds"),
        DAY_MS,
        "The least time between the beginnings of two verifications of all logs.",
    )
    stop_ms: int = setting(
        "stop.ms",
        Whole(0, DAY_MS, "milliseconds"),
        10_000,
        "The longest time of a stop: leaving the tree, answering clients, the last flush and closing.",
    )
    zookeeper_security: ZooKeeperSecurity = attrs.field(
        factory=ZooKeeperSecurity, validator=attrs.validators.instance_of(ZooKeeperSecurity)
    )
    kafka: KafkaSettings = attrs.field(factory=KafkaSettings, validator=attrs.validators.instance_of(KafkaSettings))
    legacy: LegacySettings = attrs.field(factory=LegacySettings, validator=attrs.validators.instance_of(LegacySettings))
    security: SecuritySettings = attrs.field(
        factory=SecuritySettings, validator=attrs.validators.instance_of(SecuritySettings)
    )
    replication: ReplicationSettings = attrs.field(
        factory=ReplicationSettings, validator=attrs.validators.instance_of(ReplicationSettings)
    )
    log: LogSettings = attrs.field(factory=LogSettings, validator=attrs.validators.instance_of(LogSettings))
    #: The source of each setting that is not a default, by the setting's name, for the log.
    origins: Mapping[str, str] = attrs.field(factory=dict, eq=False, repr=False)

    def __attrs_post_init__(self) -> None:
        self._check_entries_fit(self.log)
        embedded = self.zookeeper_hosts is None
        if embedded and self.zookeeper_listen.startswith("ssl:") != self.zookeeper_security.zookeeper_tls_enabled:
            raise ConfigurationError(
                f"zookeeper.listen = {self.zookeeper_listen!r} and zookeeper.tls.enabled contradict each other: the "
                "broker is a client of its own tree; an ssl: endpoint needs zookeeper.tls.enabled = true, others false"
            )
        if self.frames_bytes < self.frame_bytes + READ_ROOM:
            raise ConfigurationError(
                f"frames.bytes = {self.frames_bytes} is not allowed with frame.bytes = {self.frame_bytes}; allowed is "
                f"a whole number of bytes from {self.frame_bytes + READ_ROOM} (or a smaller frame.bytes)"
            )

    @property
    def creates_on_demand(self) -> bool:
        """True when a produce, or a Metadata request that asks for it, creates a topic."""
        return self.topics_create is True

    @property
    def creates_on_request(self) -> bool:
        """True when CreateTopic creates a topic."""
        return self.topics_create is not False

    def log_settings(self, overrides: Mapping[str, object]) -> LogSettings:
        """Return the settings of a topic's logs. Raises ConfigurationError for an override that is not allowed here."""
        settings = self.log.overridden(overrides)
        self._check_entries_fit(settings)
        # If requests are smaller than the default of batch.bytes, the largest batch that fits into them is the default.
        most = min(limit - room for _, limit, room in self._request_limits())
        return attrs.evolve(settings, batch_bytes=most) if settings.batch_bytes > most else settings

    def _request_limits(self) -> tuple[tuple[str, int, int], ...]:
        """Return the settings that bound what a request or an answer can hold, and the bytes beside an entry in it."""
        # An entry's length precedes its message.
        return ("frame.bytes", self.frame_bytes, FRAME_ROOM), ("fetch.max.bytes", self.fetch_max_bytes, 4)

    def _check_entries_fit(self, log: LogSettings) -> None:
        for name, limit, room in self._request_limits():
            for key, most in (("message.bytes", log.message_bytes), ("batch.bytes", log.batch_bytes)):
                if most + room > limit and most != DEFAULT_BATCH_BYTES:
                    raise ConfigurationError(
                        f"{key} = {most} is not allowed with {name} = {limit}; "
                        f"allowed is a whole number of bytes up to {limit - room} (or a larger {name})"
                    )
