"""Options that several commands share."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, TypeVar

import click

from logd.clientcore.addresses import parse_brokers
from logd.config.kinds import Hosts
from logd.coord import paths
from logd.errors import ConfigurationError, InvalidTopic
from logd.topic import check_topic_name

Command = TypeVar("Command", bound=Callable[..., Any])


class BrokersParameter(click.ParamType[str]):
    """The address of a broker, or several separated by commas."""

    name = "HOST:PORT"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Refuse a value that is not an address."""
        try:
            parse_brokers(value)
        except ConfigurationError as error:
            self.fail(str(error), param, ctx)
        return str(value)


class HostsParameter(click.ParamType[str]):
    """The servers of a coordination tree."""

    name = "HOSTS"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Refuse a value that does not name servers."""
        kind = Hosts()
        if not kind.accepts(value):
            self.fail(f"{value!r} is not allowed; allowed is {kind.allowed}", param, ctx)
        return str(value)


class TopicParameter(click.ParamType[str]):
    """The name of a topic."""

    name = "TOPIC"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Refuse a name that no topic can have."""
        try:
            return check_topic_name(str(value))
        except InvalidTopic as error:
            self.fail(str(error), param, ctx)


class GroupParameter(click.ParamType[str]):
    """The name of a consumer group."""

    name = "GROUP"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Refuse a name that no group can have."""
        try:
            paths.group(str(value))
        except ValueError as error:
            self.fail(str(error), param, ctx)
        return str(value)


def broker_option(command: Command) -> Command:
    """--broker, or the environment's LOGD_BROKER."""
    return click.option(
        "--broker",
        type=BrokersParameter(),
        envvar="LOGD_BROKER",
        show_envvar=True,
        default="127.0.0.1:6667",
        show_default=True,
        help="The broker to connect to, or several separated by commas.",
    )(command)


def tls_options(command: Command) -> Command:
    """--tls and --tls-ca, for commands whose brokers are named by host and port."""
    trusted = click.option(
        "--tls-ca", metavar="FILE", type=click.Path(exists=True), help="Use TLS, trusting the certificates in FILE."
    )
    return click.option("--tls", is_flag=True, help="Use TLS, as --broker tls:HOST:PORT does.")(trusted(command))


def absolute(path: str | None) -> str | None:
    """Return the absolute path, which means the same to processes with other working directories."""
    return None if path is None else os.path.abspath(path)


def zookeeper_option(command: Command) -> Command:
    """--zookeeper, or the environment's LOGD_ZOOKEEPER."""
    return click.option(
        "--zookeeper",
        type=HostsParameter(),
        envvar="LOGD_ZOOKEEPER",
        show_envvar=True,
        default="127.0.0.1:2181",
        show_default=True,
        help="The coordination tree: a broker's own, `logd zookeeper`, or ZooKeeper; several servers are separated by "
        "commas.",
    )(command)


def decompression_options(command: Command) -> Command:
    """--max-decompressed and --max-decompressed-messages, the limits for one compressed message set."""
    messages = click.option(
        "--max-decompressed-messages",
        type=click.IntRange(1, 1 << 31),
        default=1_000_000,
        show_default=True,
        metavar="N",
        help="The most messages that one compressed message set may contain.",
    )
    return click.option(
        "--max-decompressed",
        type=click.IntRange(1, 1 << 31),
        default=64 << 20,
        show_default=True,
        metavar="BYTES",
        help="The largest size of one compressed message set after decompression.",
    )(messages(command))


def audit_options(command: Command) -> Command:
    """--audit, --server and --audit-window, for commands that produce, consume or mirror."""
    width = click.option(
        "--audit-window",
        type=click.FloatRange(0.001, 24 * 60 * 60),
        default=60.0,
        show_default=True,
        metavar="SECONDS",
        help="With --audit: the width of windows, the same for all that are compared.",
    )
    server = click.option(
        "--server", metavar="NAME", default="", help="With --audit: this server's name; by default that of the host."
    )
    return click.option("--audit", is_flag=True, help="Publish counts of messages to topic _audit (see logd audit).")(
        server(width(command))
    )


def json_option(command: Command) -> Command:
    """--json, for scripts."""
    return click.option("--json", "as_json", is_flag=True, help="Print JSON, for scripts.")(command)


topic_argument = click.argument("topic", type=TopicParameter())
group_argument = click.argument("group", type=GroupParameter())

wait_option = click.option(
    "--timeout",
    type=click.FloatRange(0.1),
    default=60.0,
    show_default=True,
    metavar="SECONDS",
    help="The longest wait.",
)
