"""Settings of a client of the coordination tree: one frozen, validated object."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable
from typing import Any

import attrs

from logd.config.zookeeper import ZooKeeperSecurity
from logd.coord.access_lists import AccessLists
from logd.coord.records import Acl
from logd.coord.zookeeper.connection_string import ConnectionString, parse_connection_string
from logd.errors import ConfigurationError
from logd.security.users import zookeeper_digest

DAY = 24 * 60 * 60.0
FOR_EVER = math.inf


def _seconds(minimum: float, also: float = DAY) -> Callable[[Any, Any, Any], None]:
    def check(_instance: Any, attribute: Any, value: Any) -> None:
        if (
            isinstance(value, bool)
            or not isinstance(value, int | float)
            or not (minimum <= value <= DAY or value == also)
        ):
            raise ConfigurationError(
                f"{attribute.name} = {value!r} is not allowed; allowed is a number of seconds"
                f" from {minimum:g} to {DAY:g}"
            )

    return check


def _whole(minimum: int) -> Callable[[Any, Any, Any], None]:
    def check(_instance: Any, attribute: Any, value: Any) -> None:
        if type(value) is not int or value < minimum:
            raise ConfigurationError(f"{attribute.name} = {value!r} is not allowed; allowed is a number from {minimum}")

    return check


def _file(_instance: Any, attribute: Any, value: Any) -> None:
    if value is not None and not os.path.isfile(value):
        raise ConfigurationError(f"{attribute.name} = {value!r}: there is no such file")


@attrs.frozen(kw_only=True)
class CoordinationTls:
    """TLS to the servers; files are PEM. Raises ConfigurationError for impossible combinations."""

    #: Certificates that the servers' are checked against; None: those of the system.
    authorities: str | None = attrs.field(default=None, validator=_file)
    #: Our own certificate and key, for servers that ask for one.
    certificate: str | None = attrs.field(default=None, validator=_file)
    key: str | None = attrs.field(default=None, validator=_file)
    key_password: str | None = attrs.field(default=None, repr=False)
    #: True: the server's certificate is verified.
    verify: bool = True
    #: True: the server's certificate has to name the host.
    check_hostname: bool = True

    def __attrs_post_init__(self) -> None:
        if (self.certificate is None) != (self.key is None):
            raise ConfigurationError("certificate and key go together: give both or none")
        if self.check_hostname and not self.verify:
            raise ConfigurationError("check_hostname needs verify: an unverified certificate proves no name")


def _listed(value: Iterable[str]) -> tuple[str, ...]:
    return (value,) if isinstance(value, str) else tuple(value)


def _digests(_instance: Any, attribute: Any, value: tuple[str, ...]) -> None:
    for each in value:
        if not isinstance(each, str) or not each.partition(":")[0] or not each.partition(":")[1]:
            # The value itself stays out of the text: it holds a password.
            raise ConfigurationError(f"{attribute.name}: a credential is 'user:password'")


@attrs.frozen(kw_only=True)
class CoordinationSettings:
    """The address of a client's tree, and the client's timeouts. Raises ConfigurationError for what is not allowed."""

    #: The servers and the chroot, as ``host1:2181,host2:2181/chroot``.
    hosts: str = "127.0.0.1:2181"
    #: Seconds without contact after which the servers may end the session; they may agree to another value. Below 3 s
    #: an answer that is late by some tenths of a second can cost the connection (kazoo's pings spread by 0.4 s).
    session_timeout: float = attrs.field(default=10.0, validator=_seconds(0.1))
    #: Seconds that ``connect`` may take; FOR_EVER: until closed.
    connect_timeout: float = attrs.field(default=20.0, validator=_seconds(0.001, FOR_EVER))
    #: Seconds that any other call may take.
    operation_timeout: float = attrs.field(default=15.0, validator=_seconds(0.001))
    #: ``user:password``, for access lists of scheme digest. With one, a node created without an access list of its own
    #: can be changed with the same credentials, and read by all: see ``AccessLists``.
    digests: tuple[str, ...] = attrs.field(default=(), converter=_listed, validator=_digests, repr=False)
    tls: CoordinationTls | None = None
    #: Requests under way at a time; further ones wait in the client, where they can still be cancelled.
    in_flight: int = attrs.field(default=256, validator=_whole(1))
    #: Requests that may wait; beyond that, calls fail with ConnectionLoss at once.
    waiting: int = attrs.field(default=100_000, validator=_whole(1))
    #: Largest data of one node, in bytes. Servers drop connections for requests of 1 MiB (their ``jute.maxbuffer``).
    data_bytes: int = attrs.field(default=1_000_000, validator=_whole(1))
    #: The parsed ``hosts``.
    address: ConnectionString = attrs.field(init=False)

    @address.default
    def _read_hosts(self) -> ConnectionString:
        return parse_connection_string(self.hosts)

    def access_lists(self) -> AccessLists:
        """Return the access lists of nodes that are created without one."""
        return AccessLists(tuple(zookeeper_digest(*each.split(":", 1)) for each in self.digests))

    @property
    def default_acl(self) -> tuple[Acl, ...]:
        """The access list of most nodes that are created without one."""
        return self.access_lists().of("/")

    @classmethod
    def secured(cls, hosts: str, security: ZooKeeperSecurity, **more: Any) -> CoordinationSettings:
        """Return settings for these servers, protected as ``security`` says. Reads a file if it names one.

        Raises ConfigurationError for what is not allowed, and for a file that cannot be read.
        """
        tls = None
        if security.zookeeper_tls_enabled:
            tls = CoordinationTls(
                authorities=security.zookeeper_tls_authorities,
                certificate=security.zookeeper_tls_certificate,
                key=security.zookeeper_tls_key,
                check_hostname=security.zookeeper_tls_hostname,
            )
        credentials = security.zookeeper_digest_credentials
        if security.zookeeper_digest_file is not None:
            credentials = _first_line(security.zookeeper_digest_file)
        return cls(hosts=hosts, tls=tls, digests=() if credentials is None else (credentials,), **more)


def _first_line(path: str) -> str:
    try:
        with open(path, encoding="utf-8") as file:
            line = file.readline().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"zookeeper.digest.file = {path!r} cannot be read: {error}") from error
    if not line.partition(":")[0] or not line.partition(":")[1]:
        # The line itself stays out of the text: it may be a password.
        raise ConfigurationError(
            f"zookeeper.digest.file = {path!r} is not allowed: its first line is not USER:PASSWORD"
        )
    return line
