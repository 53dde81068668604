"""``logd broker``: a broker in the foreground, with the settings of ``twistd logd`` as options."""

from __future__ import annotations

import sys
from typing import Any

import click

from logd.config import BrokerSettings
from logd.config.kinds import Address, Endpoint, Folder, Hosts, Whole
from logd.config.setting import settings_of

_EPILOG = """\b
Examples:
  logd broker --data /tmp/logd
  logd broker --data a --id 1 --listen tcp:6668:interface=127.0.0.1 --zookeeper 127.0.0.1:2181
  logd broker --data a --set retention.ms=86400000 --http tcp:8080:interface=127.0.0.1
\b
As a service, in the background:
  twistd --pidfile=/run/logd.pid --logfile=/var/log/logd.log logd --data /var/lib/logd
"""

_METAVARS: dict[type, str] = {Folder: "DIR", Endpoint: "ENDPOINT", Address: "HOST:PORT", Whole: "N", Hosts: "HOSTS"}


def _with_settings(command: click.Command) -> click.Command:
    """Add the options of ``twistd logd``, from the same table of settings."""
    options: list[click.Parameter] = []
    for row in settings_of(BrokerSettings):
        if row.option:
            shown = row.meaning if row.default is None else f"{row.meaning}  [default: {row.default}]"
            metavar = _METAVARS[type(row.kind)]
            options.append(click.Option([f"--{row.option}"], required=row.required, metavar=metavar, help=shown))
    command.params[:0] = options
    return command


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
    arguments = [f"--{name.replace('_', '-')}={value}" for name, value in options.items() if value is not None]
    arguments += [f"--config={config}"] if config is not None else []
    arguments += [f"--set={assignment}" for assignment in assignments]
    from twisted.python.usage import UsageError

    from logd.tap import Options

    try:
        Options().parseOptions(list(arguments))
    except UsageError as error:
        raise click.UsageError(str(error), ctx) from None
    from twisted.scripts.twistd import run

    sys.argv = ["twistd", "--nodaemon", "--pidfile=", "logd", *arguments]
    run()


_with_settings(broker)
