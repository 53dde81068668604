"""The ``logd`` command; each subcommand has a file of its own, imported when it is used."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from io import TextIOWrapper
from typing import Any, ClassVar

import click

from logd import __version__
from logd.cli.lazy_group import PLAIN, Lazy, LazyGroup
from logd.errors import LogdError
from logd.unprinted import is_in_log
from logd.unused_tls import may_need_tls

_EPILOG = """\b
Exit status: 0 success, 1 failure, 2 usage error, 3 no broker reached, 130 interrupted.
Start a broker with: logd broker --data DIR
"""


def _acl() -> click.Command:
    from logd.cli.security.acl import acl

    return acl


def _audit() -> click.Command:
    from logd.cli.audit.audit import audit

    return audit


def _backup() -> click.Command:
    from logd.cli.operations.backup import backup

    return backup


def _bench() -> click.Command:
    from logd.cli.bench.bench import bench

    return bench


def _broker() -> click.Command:
    from logd.cli.cluster.broker import broker

    return broker


def _brokers() -> click.Command:
    from logd.cli.cluster.brokers import brokers

    return brokers


def _collect() -> click.Command:
    from logd.cli.messages.collect import collect

    return collect


def _consume() -> click.Command:
    from logd.cli.messages.consume import consume

    return consume


def _dead_letters() -> click.Command:
    from logd.cli.dead_letters.dead_letters import dead_letters

    return dead_letters


def _doctor() -> click.Command:
    from logd.cli.operations.doctor import doctor

    return doctor


def _dump() -> click.Command:
    from logd.cli.files.dump import dump

    return dump


def _elect() -> click.Command:
    from logd.cli.cluster.elect import elect

    return elect


def _groups() -> click.Command:
    from logd.cli.cluster.groups import groups

    return groups


def _import() -> click.Command:
    from logd.cli.spark.import_command import import_

    return import_


def _mirror() -> click.Command:
    from logd.cli.mirror.mirror import mirror

    return mirror


def _produce() -> click.Command:
    from logd.cli.messages.produce import produce

    return produce


def _quotas() -> click.Command:
    from logd.cli.security.quotas import quotas

    return quotas


def _repair() -> click.Command:
    from logd.cli.files.repair import repair

    return repair


def _restore() -> click.Command:
    from logd.cli.operations.restore import restore

    return restore


def _sql() -> click.Command:
    from logd.cli.spark.sql import sql

    return sql


def _topics() -> click.Command:
    from logd.cli.cluster.topics import topics

    return topics


def _tree() -> click.Command:
    from logd.cli.cluster.tree import tree

    return tree


def _users() -> click.Command:
    from logd.cli.security.users import users

    return users


def _verify() -> click.Command:
    from logd.cli.files.verify import verify

    return verify


def _zookeeper() -> click.Command:
    from logd.cli.cluster.zookeeper import zookeeper

    return zookeeper


class Commands(LazyGroup):
    """All commands, imported lazily: importing them all for a page of help would take a second."""

    #: True while a command runs with whose end the process ends.
    _exits = False
    lazy: ClassVar[Mapping[str, Lazy]] = {
        "acl": Lazy("Say what users may do.", _acl),
        "audit": Lazy("Show whether messages are missing, by topic and window of time.", _audit),
        "backup": Lazy("Write topics, users, rules, schemas and positions to a file.", _backup),
        "bench": Lazy("Measure the performance of logd on this machine.", _bench),
        "broker": Lazy("Run a broker in the foreground.", _broker),
        "brokers": Lazy("List the brokers of a cluster, and take leaderships from them.", _brokers),
        "collect": Lazy("Send the lines of files to a topic, and follow them.", _collect),
        "consume": Lazy("Write the messages of a topic to standard output.", _consume),
        "dead-letters": Lazy("List and replay messages that could not be handled.", _dead_letters),
        "doctor": Lazy("Look for what would stop a broker or lose data, with remedies.", _doctor),
        "dump": Lazy("Show the entries of a segment file.", _dump),
        "elect": Lazy("Choose the leaders of replicated partitions anew.", _elect),
        "groups": Lazy("List, describe, reset and delete consumer groups.", _groups),
        "import": Lazy("Load new messages of topics into files, with Spark.", _import),
        "mirror": Lazy("Copy topics to another cluster.", _mirror),
        "produce": Lazy("Send lines to a topic.", _produce),
        "quotas": Lazy("Limit what users may use: bytes, connections, requests, topics.", _quotas),
        "repair": Lazy("Replace damaged entries by gaps.", _repair),
        "restore": Lazy("Write a backup into a new coordination tree.", _restore),
        "sql": Lazy("Query topics in SQL, with Spark.", _sql),
        "topics": Lazy("List, create, describe, change and delete topics.", _topics),
        "tree": Lazy("Show and change who may write to the coordination tree.", _tree),
        "users": Lazy("Say who may connect.", _users),
        "verify": Lazy("Check a data directory, a partition or a segment.", _verify),
        "zookeeper": Lazy("Serve a coordination tree to brokers and consumers.", _zookeeper),
    }

    def main(self, args: Sequence[str] | None = None, *more: Any, **named: Any) -> Any:
        """Run the command of ``args``, of ``sys.argv`` by default, and exit, unless ``standalone_mode`` is False.

        A caller that gives ``args`` may catch the exit and go on, as click's CliRunner does.
        """
        self._exits = args is None and not more and named.get("standalone_mode", True)
        if self._exits:
            print_any_name(sys.stdout)
        return super().main(args, *more, **named)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Note whether a command of these words needs no TLS, in a process that ends with it."""
        words = [*args, *(value for name, value in os.environ.items() if name.startswith("LOGD_"))]
        ctx.meta[PLAIN] = self._exits and "bench" not in args and not may_need_tls(words)
        return super().parse_args(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command. Ctrl-C during its import exits with 130, as it does later; click alone would exit with 1.

        An error of the system, such as that of a full disk under the output, is a line on stderr and a status.
        """
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            click.echo("logd: interrupted", err=True)
            ctx.exit(130)
        except (LogdError, OSError) as error:
            from logd.cli.terminal.exits import report, status_of

            if not is_in_log(error):
                report(error)
            ctx.exit(status_of(error))


def print_any_name(stream: object) -> None:
    """Let a stream escape what its encoding cannot express, such as the name of a file that is not UTF-8."""
    if isinstance(stream, TextIOWrapper) and stream.errors == "strict":
        stream.reconfigure(errors="backslashreplace")


def _show_version(ctx: click.Context, option: click.Parameter, asked: bool) -> None:
    """Print the version, and which implementation of the loops over messages would be in use, and why."""
    if asked and not ctx.resilient_parsing:
        from logd.protocol.implementation import described

        click.echo(f"logd {__version__} ({described()})")
        ctx.exit()


@click.group(
    cls=Commands,
    epilog=_EPILOG,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_show_version,
    help="Show the version and exit.",
)
def main() -> None:
    """Run a logd broker; produce, consume and administer the logs that it keeps."""
