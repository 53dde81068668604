"""``logd``: the command line's entrance; each command has a file of its own."""

from __future__ import annotations

import click

from logd import __version__
from logd.cli.bench import bench
from logd.cli.brokers import brokers
from logd.cli.collect import collect
from logd.cli.consume import consume
from logd.cli.dump import dump
from logd.cli.groups import groups
from logd.cli.importing import import_
from logd.cli.produce import produce
from logd.cli.repair import repair
from logd.cli.sql import sql
from logd.cli.topics import topics
from logd.cli.verify import verify
from logd.cli.zookeeper import zookeeper

_EPILOG = """\b
Exit status: 0 done, 1 failed, 2 wrong use, 3 no broker reached, 130 interrupted.
A broker is started by: twistd -n logd --data DIR
"""


@click.group(epilog=_EPILOG, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, message="logd %(version)s")
def main() -> None:
    """Send, read and look after logs kept by a logd broker."""


for command in (
    produce,
    consume,
    collect,
    import_,
    sql,
    topics,
    brokers,
    groups,
    zookeeper,
    verify,
    dump,
    repair,
    bench,
):
    main.add_command(command)
