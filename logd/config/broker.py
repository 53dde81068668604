"""Settings of a broker."""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from logd.config.kinds import Address, Endpoint, Folder, Hosts, Switch, SwitchOr, Whole
from logd.config.log import DAY_MS, LONGEST_TIMER_MS, LogSettings
from logd.config.setting import setting
from logd.config.zookeeper import ZooKeeperSecurity
from logd.errors import ConfigurationError

#: Room in a frame for what stands around a message set: type, version, topic (202 bytes), numbers, lengths.
FRAME_ROOM = 1024
_MEBIBYTE = 1 << 20
#: Room beside the largest frame for what one read of its connection brings with it.
READ_ROOM = _MEBIBYTE


@attrs.frozen(kw_only=True)
class BrokerSettings:
    """Everything a broker is told at its start. Raises ConfigurationError for values that are not allowed."""

    data: str = setting(
        "data", Folder(), None, "The data directory; made when it is missing.", required=True, option=True
    )
    listen: str = setting(
        "listen",
        Endpoint("tcp:6667:interface=127.0.0.1"),
        "tcp:6667:interface=127.0.0.1",
        "Where clients connect.",
        option=True,
    )
    advertise: str | None = setting(
        "advertise",
        Address(),
        None,
        "The address that clients are told to connect to; by default the one that is listened on.",
        option=True,
    )
    id: int | None = setting(
        "id",
        Whole(0, (1 << 31) - 1),
        None,
        "The broker's number, once for ever; by default the one kept in the data directory, and 0 in a new one.",
        option=True,
    )
    http: str | None = setting(
        "http",
        Endpoint("tcp:8080:interface=127.0.0.1"),
        None,
        "Where /health and /metrics are served; by default nowhere.",
        option=True,
    )
    zookeeper_hosts: str | None = setting(
        "zookeeper.hosts",
        Hosts(),
        None,
        "The servers of the coordination tree, for several brokers: ZooKeeper's, or `logd zookeeper`; by default this "
        "broker keeps a tree of its own.",
        option="zookeeper",
    )
    zookeeper_listen: str = setting(
        "zookeeper.listen",
        Endpoint("tcp:2181:interface=127.0.0.1"),
        "tcp:2181:interface=127.0.0.1",
        "Where the broker's own coordination tree is served, when `zookeeper.hosts` is not given.",
        option="zookeeper-listen",
    )
    zookeeper_nodes_max: int = setting(
        "zookeeper.nodes.max",
        Whole(1, 1 << 31, "nodes"),
        1_000_000,
        "Nodes that the broker's own coordination tree may have; then none can be made until some are removed.",
    )
    zookeeper_nodes_bytes: int = setting(
        "zookeeper.nodes.bytes",
        Whole(1, 1 << 50, "bytes"),
        1024 * _MEBIBYTE,
        "About the memory that the nodes of the broker's own coordination tree may take: for each 600 bytes, its path, "
        "data and access list.",
    )
    zookeeper_session_ms: int = setting(
        "zookeeper.session.ms",
        Whole(100, DAY_MS, "milliseconds"),
        10_000,
        "A broker that has not been heard of for this time counts as gone.",
    )
    zookeeper_timeout_ms: int = setting(
        "zookeeper.timeout.ms",
        Whole(1, DAY_MS, "milliseconds"),
        10_000,
        "How long a call on the coordination tree may take; and how long clients wait at a start for the tree, before "
        "what is known without it is served.",
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
        "What all connections together may hold of requests that are not complete, or not yet taken; above it the "
        "connection is closed whose request began first, of those that the broker reads.",
    )
    frame_ms: int = setting(
        "frame.ms",
        Whole(1, LONGEST_TIMER_MS, "milliseconds", none="no limit"),
        60_000,
        "A connection is closed when a request that it has begun is not complete after this time.",
    )
    send_ms: int = setting(
        "send.ms",
        Whole(1, LONGEST_TIMER_MS, "milliseconds", none="no limit"),
        120_000,
        "A connection is closed when its client takes nothing for this time while answers wait for it.",
    )
    idle_ms: int = setting(
        "idle.ms",
        Whole(1, LONGEST_TIMER_MS, "milliseconds", none="no limit"),
        -1,
        "A connection is closed when it has sent nothing for this time and waits for nothing.",
    )
    fetch_max_bytes: int = setting(
        "fetch.max.bytes",
        Whole(1, 1 << 30, "bytes"),
        16 * _MEBIBYTE,
        "One answer to a fetch carries no more bytes of messages than this, whatever was asked for.",
    )
    unflushed_bytes: int = setting(
        "unflushed.bytes",
        Whole(1, 1 << 50, "bytes"),
        256 * _MEBIBYTE,
        "Producers are paused while more than this, over all partitions, is appended and not yet flushed.",
    )
    connections_max: int = setting(
        "connections.max",
        Whole(1, 1_000_000),
        10_000,
        "Further connections are closed as soon as they are made.",
    )
    connections_address_max: int = setting(
        "connections.address.max",
        Whole(1, 1_000_000, none="no limit"),
        5_000,
        "Further connections from one address, of which so many are open, are closed as soon as they are made.",
    )
    connection_requests: int = setting(
        "connection.requests",
        Whole(1, 100_000),
        100,
        "A connection is not read while this many of its requests wait for their answers.",
    )
    flush_threads: int = setting(
        "flush.threads", Whole(1, 64), 2, "How many threads flush: the number of fdatasync calls at a time."
    )
    io_threads: int = setting(
        "io.threads", Whole(1, 256), 4, "How many threads read what the page cache does not have."
    )
    topics_create: bool | str = setting(
        "topics.create",
        SwitchOr("explicit"),
        True,
        "The requests that create a topic: with `true` a produce to one that does not exist, and CreateTopic "
        "(`logd topics create`); with `explicit` CreateTopic alone; with `false` none.",
    )
    administration_requests: bool = setting(
        "administration.requests",
        Switch(),
        True,
        "Whether DeleteTopic and Repair requests are taken, from every client that can connect.",
    )
    legacy_refused_close: bool = setting(
        "legacy.refused.close",
        Switch(),
        False,
        "Whether a refused produce of 0.7 closes its connection, as Kafka 0.7.2 did: such a request has no answer, so "
        "this is the only sign that its producer can get. It loses what it sent behind the refused set.",
    )
    topics_partitions: int = setting(
        "topics.partitions", Whole(1, 10_000), 1, "How many partitions a topic gets that a produce creates."
    )
    topics_max: int = setting(
        "topics.max", Whole(1, 1_000_000), 10_000, "No topic is created beyond this many partitions of all topics."
    )
    retention_check_ms: int = setting(
        "retention.check.ms",
        Whole(1, LONGEST_TIMER_MS, "milliseconds"),
        300_000,
        "How often old segments are looked for.",
    )
    checkpoint_ms: int = setting(
        "checkpoint.ms",
        Whole(1, LONGEST_TIMER_MS, "milliseconds"),
        60_000,
        "How often it is written down up to where each log is sound; only what lies behind is scanned after a crash.",
    )
    stop_ms: int = setting(
        "stop.ms",
        Whole(0, DAY_MS, "milliseconds"),
        10_000,
        "How long a stop may take in all: leaving, answering clients, the last flush and closing.",
    )
    zookeeper_security: ZooKeeperSecurity = attrs.field(
        factory=ZooKeeperSecurity, validator=attrs.validators.instance_of(ZooKeeperSecurity)
    )
    log: LogSettings = attrs.field(factory=LogSettings, validator=attrs.validators.instance_of(LogSettings))
    #: The places that said the settings which are not left at their defaults, by the settings' names, for the log.
    origins: Mapping[str, str] = attrs.field(factory=dict, eq=False, repr=False)

    def __attrs_post_init__(self) -> None:
        self._check_message_fits(self.log)
        embedded = self.zookeeper_hosts is None
        if embedded and self.zookeeper_listen.startswith("ssl:") != self.zookeeper_security.zookeeper_tls_enabled:
            raise ConfigurationError(
                f"zookeeper.listen = {self.zookeeper_listen!r} and zookeeper.tls.enabled do not go together: the "
                "broker is a client of its own tree; an ssl: endpoint needs zookeeper.tls.enabled = true, others false"
            )
        if self.frames_bytes < self.frame_bytes + READ_ROOM:
            raise ConfigurationError(
                f"frames.bytes = {self.frames_bytes} is not allowed with frame.bytes = {self.frame_bytes}; allowed is "
                f"a whole number of bytes from {self.frame_bytes + READ_ROOM} (or a smaller frame.bytes)"
            )

    @property
    def creates_on_demand(self) -> bool:
        """Whether a produce, or a Metadata request that asks for it, creates a topic."""
        return self.topics_create is True

    @property
    def creates_on_request(self) -> bool:
        """Whether CreateTopic creates a topic."""
        return self.topics_create is not False

    def log_settings(self, overrides: Mapping[str, object]) -> LogSettings:
        """The settings of a topic's logs; raise ConfigurationError for an override that is not allowed here."""
        settings = self.log.overridden(overrides)
        self._check_message_fits(settings)
        return settings

    def _check_message_fits(self, log: LogSettings) -> None:
        for name, limit, room in (
            ("frame.bytes", self.frame_bytes, FRAME_ROOM),
            ("fetch.max.bytes", self.fetch_max_bytes, 4),  # an entry's length stands before its message
        ):
            if log.message_bytes + room > limit:
                raise ConfigurationError(
                    f"message.bytes = {log.message_bytes} is not allowed with {name} = {limit}; "
                    f"allowed is a whole number of bytes up to {limit - room} (or a larger {name})"
                )
