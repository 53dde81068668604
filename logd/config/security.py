"""Settings of users, access rules, and listeners that other machines can reach."""

from __future__ import annotations

import re

import attrs

from logd.config.kinds import Names, OneOf, PemFile, Switch, TopicName, Whole
from logd.config.setting import setting

#: Names of users: printable, and without what has a meaning in paths, lists and commands.
_USERS = re.compile(r"""[^\s/:*,\\"']{1,200}(?:,[^\s/:*,\\"']{1,200})*\Z""")


@attrs.frozen(kw_only=True)
class SecuritySettings:
    """Access: those who may connect, and those who may do everything. Raises ConfigurationError."""

    security_required: bool = setting(
        "security.required",
        Switch(),
        False,
        "Allow only what access rules allow, also while there are no users and no rules. Without it a cluster without "
        "users and rules is open to whoever can connect.",
    )
    security_superusers: str = setting(
        "security.superusers",
        Names("names of users", _USERS),
        "",
        "The users who may do everything, whatever the rules say.",
    )
    security_client_authorities: str | None = setting(
        "security.client.authorities",
        PemFile("a file of certificates in PEM"),
        None,
        "The authorities that sign the certificates of clients. Endpoints with TLS (ssl:) then ask clients for a "
        "certificate, and who has one is the user that it names, without a password.",
    )
    security_client_certificates: str = setting(
        "security.client.certificates",
        OneOf(("optional", "required")),
        "optional",
        "Whether clients without a certificate may connect to endpoints that ask for one.",
    )
    security_client_principal: str = setting(
        "security.client.principal",
        OneOf(("CN", "DNS")),
        "CN",
        "What in a client's certificate is the name of the user: the common name of its subject, or the one DNS name "
        "among its alternative names.",
    )
    open_to_network: bool = setting(
        "open.to.network",
        Switch(),
        False,
        "Let listeners take connections from other machines although `security.required` is false, and the broker's "
        "own coordination tree without credentials.",
        option="open-to-network",
    )

    requests_address_max: int = setting(
        "requests.address.max",
        Whole(1, 1_000_000, none="no limit"),
        -1,
        "The most requests of one address under way, fetches that wait included; its connections are not read while "
        "there are as many. A quota of a user limits those of the user, whatever the address.",
    )

    security_administration_topic: str | None = setting(
        "security.administration.topic",
        TopicName(),
        None,
        "The topic that records of administration are written to, such as `_admin`, besides the log: who has changed "
        "what, from where, and with which result. Each broker appends to a partition of its own.",
    )

    @property
    def superusers(self) -> frozenset[str]:
        """The names in ``security.superusers``."""
        return frozenset(self.security_superusers.split(",")) - {""}
