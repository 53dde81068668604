"""Settings of a broker's listeners for clients of today's Kafka."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest

import attrs

from logd.config.kinds import AddressOrNone, Endpoint, OneOrMore, Switch, Whole, parse_address
from logd.config.log import DAY_MS
from logd.config.setting import setting
from logd.errors import ConfigurationError

#: The most listeners: as many as a broker's registration names.
MOST_LISTENERS = 16


@attrs.frozen(kw_only=True)
class KafkaSettings:
    """All settings whose names begin with ``kafka.``. Raises ConfigurationError for a value that is not allowed."""

    kafka_listen: str | Sequence[str] | None = setting(
        "kafka.listen",
        OneOrMore(Endpoint("tcp:9092:interface=127.0.0.1"), MOST_LISTENERS),
        None,
        "The endpoint that clients of today's Kafka connect to (extra `kafka`), or several; by default none. Brokers "
        "that share a coordination tree have theirs in the same order: a client of the first listener of one broker is "
        "told the first of each.",
        option="kafka-listen",
    )
    kafka_advertise: str | Sequence[str] | None = setting(
        "kafka.advertise",
        OneOrMore(AddressOrNone(), MOST_LISTENERS),
        None,
        "The address that Kafka's clients are told to connect to; with several listeners one for each, in the order of "
        "`kafka.listen`, `-` for none. Without one a client is told the IP address that it has connected to, so it is "
        "needed only where another machine forwards the connections, or a certificate is for a name.",
        option="kafka-advertise",
    )
    kafka_producer_ms: int = setting(
        "kafka.producer.ms",
        Whole(1, 365 * DAY_MS, "milliseconds"),
        DAY_MS,
        "What an idempotent producer of Kafka has sent last is remembered for this time after its last batch, so that "
        "a batch that it sends again is not stored twice.",
    )
    kafka_producers_max: int = setting(
        "kafka.producers.max",
        Whole(1, 100_000_000),
        100_000,
        "The most idempotent producers that are remembered, counted once for each partition, some 700 bytes each; "
        "beyond it the one that was used least recently is forgotten.",
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
        "The time for which an empty group waits for further members before its partitions are shared out; as long "
        "again if some have joined meanwhile.",
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

    kafka_audit_enabled: bool = setting(
        "kafka.audit.enabled",
        Switch(),
        False,
        "Count what Kafka's clients produce, for `logd audit`: they count nothing themselves. The broker publishes the "
        "counts. Where `listen` has TLS, other brokers' certificates must be of `security.client.authorities`, or be "
        "signed with this broker's own.",
    )
    kafka_audit_window_ms: int = setting(
        "kafka.audit.window.ms",
        Whole(1, DAY_MS, "milliseconds"),
        60_000,
        "The width of the windows of these counts: that of the audited clients.",
    )

    def __attrs_post_init__(self) -> None:
        listeners, addresses = len(self.endpoints), len(_listed(self.kafka_advertise))
        if addresses > listeners:
            raise ConfigurationError(
                f"kafka.advertise names {addresses} addresses and kafka.listen {listeners} endpoints; allowed is one "
                "address for each endpoint, in their order, and '-' for an endpoint without one"
            )

    @property
    def endpoints(self) -> tuple[str, ...]:
        """The endpoints to listen on."""
        return _listed(self.kafka_listen)

    @property
    def advertised(self) -> tuple[tuple[str, int] | None, ...]:
        """Of each endpoint: the address to tell clients, None for the one that they have connected to."""
        addresses = zip_longest(self.endpoints, _listed(self.kafka_advertise), fillvalue="-")
        return tuple([None if address == "-" else parse_address(address) for _, address in addresses])


def _listed(value: str | Sequence[str] | None) -> tuple[str, ...]:
    return () if value is None else (value,) if isinstance(value, str) else tuple(value)
