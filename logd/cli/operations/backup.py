"""``logd backup``: what the coordination tree knows, in one file with a checksum."""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime

import click

from logd.backup.backup_file import Backup, BadBackup, write_backup
from logd.backup.reading import read_tree
from logd.cli.options import json_option, zookeeper_option
from logd.cli.terminal.exits import complain
from logd.cli.tree_session import with_tree
from logd.coord import paths
from logd.coord.interfaces import ICoordination
from logd.plurals import counted

_EPILOG = """\b
Examples:
  logd backup logd.backup
  logd backup /var/backups/logd-$(date +%F).backup --zookeeper zk1:2181,zk2:2181/logd
  logd backup /var/backups/logd.backup --replace --json
\b
`logd restore FILE` writes it into a new tree. Keep the file on another machine, and as secret as passwords.
"""


@click.command(epilog=_EPILOG)
@click.argument("file", type=click.Path(dir_okay=False))
@zookeeper_option
@click.option("--replace", is_flag=True, help="Replace FILE if it exists, at once and durably.")
@json_option
@click.pass_context
def backup(ctx: click.Context, /, file: str, zookeeper: str, replace: bool, as_json: bool) -> None:
    """Write topics, settings, users, rules, quotas, schemas and the positions of groups to FILE.

    Messages are not in it: mirror them (`logd mirror`), load them elsewhere (`logd import`), or copy the data
    directories of stopped brokers. Brokers and clients may work meanwhile. The file names the time of its
    definitions; positions are of that time too, or of a few seconds later.
    """

    async def work(tree: ICoordination) -> None:
        found = await read_tree(
            tree,
            lambda: int(time.time() * 1000),
            lambda path, error: complain(f"{path} is left out, as logd did not write it so: {error}"),
        )
        try:
            write_backup(file, found, replace)
        except OSError as error:
            raise BadBackup(f"{file} cannot be written: {error}") from error
        if as_json:
            click.echo(json.dumps({"file": file, "time": moment(found), **contents(found)}))
        else:
            click.echo(f"{file}: {described(found)}, as of {moment(found)}")

    with_tree(ctx, zookeeper, work)


def moment(backup: Backup) -> str:
    """Return the time at which all definitions of a backup stood as they are in it, in UTC."""
    return datetime.fromtimestamp(backup.ended_ms / 1000, UTC).isoformat(timespec="milliseconds")


def contents(backup: Backup) -> dict[str, int]:
    """Return the numbers of things in a backup."""
    words = [path.split("/")[1:] for path in backup.nodes]
    return {
        "topics": sum(each[:2] == ["brokers", "topics"] for each in words),
        "groups": len({each[1] for each in words if each[0] == "consumers"}),
        "positions": sum(len(each) == 5 and each[2] == "offsets" for each in words if each[0] == "consumers"),
        "users": sum(path.startswith(f"{paths.USERS}/") for path in backup.nodes),
        "rules": sum(path.startswith(f"{paths.ACCESS_RULES}/") for path in backup.nodes),
        "quotas": sum(path.startswith(f"{paths.QUOTAS}/") for path in backup.nodes),
        "schemas": sum(len(each) == 3 and each[:2] == ["schemas", "ids"] for each in words),
    }


def described(backup: Backup) -> str:
    """Return the numbers of things in a backup, in words."""
    return ", ".join(counted(number, name[:-1]) for name, number in contents(backup).items())
