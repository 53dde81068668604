"""Settings for clients of Kafka 0.7 that find brokers in ZooKeeper."""

from __future__ import annotations

import re

import attrs

from logd.config.kinds import Address, Chroot, Endpoint, Names
from logd.config.setting import setting
from logd.errors import ConfigurationError

#: The name of a user, and the names that no user has.
_USER = re.compile(r"""[^\s/:*,\\"']{1,200}\Z""")
RESERVED = ("logd-broker", "anonymous")


@attrs.frozen(kw_only=True)
class LegacySettings:
    """The registry of Kafka 0.7 and the listener that belongs to it. Raises ConfigurationError."""

    legacy_registry: str | None = setting(
        "legacy.registry",
        Chroot(),
        None,
        "Register this broker, and its topics with message.format = 0.7 and one replica, as Kafka 0.7 did, below this "
        "node of the coordination tree, for clients of 0.7 that use ZooKeeper: they connect to ZOOKEEPER/NODE. The "
        "groups and positions of such consumers lie there too.",
        option="legacy-registry",
    )
    legacy_listen: str | None = setting(
        "legacy.listen",
        Endpoint("tcp:6668:interface=127.0.0.1"),
        None,
        "The endpoint for these clients. There each broker numbers its own partitions of a topic from 0 on, as in 0.7.",
        option="legacy-listen",
    )
    legacy_advertise: str | None = setting(
        "legacy.advertise", Address(), None, "The address that these clients are told; by default that of the endpoint."
    )

    legacy_principal: str | None = setting(
        "legacy.principal",
        Names("the name of a user", _USER),
        None,
        "The user whose rights the connections with `legacy.listen` have, as clients of 0.7 cannot authenticate; "
        "by default nobody's (`anonymous`). A client's certificate goes before it.",
    )

    def __attrs_post_init__(self) -> None:
        if self.legacy_principal in RESERVED:
            raise ConfigurationError(
                f"legacy.principal = {self.legacy_principal!r} is not allowed: that name has a meaning of its own"
            )
        if (self.legacy_registry is None) != (self.legacy_listen is None):
            raise ConfigurationError(
                "legacy.registry and legacy.listen go together: the node of the coordination tree, and the endpoint "
                "that is registered there; give both or none"
            )
