"""``logd broker``: a broker in the foreground, with the settings of ``twistd logd`` as options."""

from __future__ import annotations

import sys
from typing import Any

import click

from logd.config.kinds import Address, AddressOrNone, Chroot, Endpoint, Folder, Hosts, OneOrMore, Switch, Whole
from logd.config.sources import ROWS

_EPILOG = """\b
Examples:
  logd broker --data /tmp/logd
  logd broker --data a --id 1 --listen tcp:6668:interface=127.0.0.1 --zookeeper 127.0.0.1:2181
  logd broker --data a --set retention.ms=86400000 --http tcp:8080:interface=127.0.0.1
  logd broker --data a --kafka-listen tcp:9092:interface=127.0.0.1
\b
As a service, in the background:
  twistd --pidfile=/run/logd.pid --logfile=/var/log/logd.log logd --data /var/lib/logd
"""

_METAVARS: dict[type, str] = {
    Folder: "DIR",
    Endpoint: "ENDPOINT",
    Address: "HOST:PORT",
    Whole: "N",
    Hosts: "HOSTS",
    AddressOrNone: "HOST:PORT",
    Chroot: "PATH",
}


def _with_settings(command: click.Command) -> click.Command:
    """Add the options of ``twistd logd``, from the same table of settings."""
    options: list[click.Parameter] = []
    for row in ROWS.values():
        if row.option:
            is_flag, repeated = isinstance(row.kind, Switch), isinstance(row.kind, OneOrMore)
            shown = row.meaning if is_flag or row.default is None else f"{row.meaning}  [default: {row.default}]"
            kind = row.kind.kind if isinstance(row.kind, OneOrMore) else row.kind
            more: dict[str, Any] = {"is_flag": True} if is_flag else {"metavar": _METAVARS[type(kind)]}
            options.append(
                click.Option([f"--{row.option}"], required=row.required, multiple=repeated, help=shown, **more)
            )
    command.params[:0] = options
    return command


def _argument(option: str, value: Any) -> list[str]:
    """Return an option as ``twistd logd`` takes it: several times for a tuple, without a value for a flag."""
    if isinstance(value, bool):
        return [f"--{option}"] if value else []
    values = value if isinstance(value, tuple) else () if value is None else (value,)
    return [f"--{option}={each}" for each in values]


@click.command(epilog=_EPILOG)
@click.option("--config", metavar="FILE.toml", help="A TOML file of settings, such as: retention.ms = 86400000.")
@click.option(
    "--set",
    "assignments",
    metavar="KEY=VALUE",
    multiple=True,
    help="Set any setting; may be repeated. docs/configuration.md lists the settings.",
)
@click.pass_context
def broker(ctx: click.Context, /, config: str | None, assignments: tuple[str, ...], **options: Any) -> None:
    """Run a broker in the foreground, until Ctrl-C, SIGTERM or the end of its terminal stops it cleanly.

    The broker stores the messages of producers in partitioned logs under --data and delivers them to consumers.
    This command is `twistd -n logd`; use twistd itself to run the broker as a service.
    """
    arguments = [argument for name, value in options.items() for argument in _argument(name.replace("_", "-"), value)]
    arguments += [f"--config={config}"] if config is not None else []
    arguments += [f"--set={assignment}" for assignment in assignments]
    from twisted.python.usage import UsageError

    from logd.tap import Options

    options_of_broker = Options()
    options_of_broker.alone = True
    try:
        options_of_broker.parseOptions(list(arguments))
    except UsageError as error:
        raise click.UsageError(str(error), ctx) from None
    from twisted.scripts.twistd import run

    sys.argv = ["twistd", "--nodaemon", "--pidfile=", "logd", *arguments]
    run()


_with_settings(broker)
