"""``logd restore``: writes a backup into a coordination tree, so that its topics begin again with new positions."""

from __future__ import annotations

import json
import time
from typing import Any

import click

from logd.backup.backup_file import Backup, BadBackup, read_backup
from logd.backup.restoring import RestoredTopic, RestoreOutcome, plan_topics
from logd.backup.restoring import restore as restore_backup
from logd.cli.operations.backup import contents, described, moment
from logd.cli.options import json_option, zookeeper_option
from logd.cli.terminal.exits import complain, report, status_of
from logd.cli.terminal.tables import show
from logd.cli.tree_session import with_tree
from logd.coord.interfaces import ICoordination
from logd.deferreds.sleeping import sleep
from logd.errors import LogdError
from logd.plurals import counted

#: Nodes that a warning names.
_NAMED = 5
#: A wait that is not told.
_SILENT_SECONDS = 2.0

_EPILOG = """\b
Examples:
  logd restore logd.backup --dry-run
  logd restore logd.backup
  logd restore logd.backup --add --zookeeper zk1:2181,zk2:2181/logd
\b
Start the tree first (`logd zookeeper`, or the broker that has one of its own), and the brokers before or after,
with the ids that they had.
"""


@click.command(epilog=_EPILOG)
@click.argument("file", type=click.Path(exists=True, dir_okay=False))
@zookeeper_option
@click.option(
    "--add", "adding", is_flag=True, help="Restore into a tree in use: what it has stays, and the rest is added."
)
@click.option("--dry-run", is_flag=True, help="Check the file, and show where the logs would begin; ask no tree.")
@json_option
@click.pass_context
def restore(ctx: click.Context, /, file: str, zookeeper: str, adding: bool, dry_run: bool, as_json: bool) -> None:
    """Write the topics, settings, users, rules, quotas, schemas and positions in FILE into a coordination tree.

    The tree must be new, unless --add is given. Messages are not restored: each log begins empty, at a position behind
    all that were ever given, so that no position means other messages than before. Positions of groups, and those kept
    elsewhere (imports, mirrors, Spark), are then before the log's start, and are reported as lost. Logs that a broker
    still has of a restored topic are set aside, under names that end with .lost: if only the tree is lost and the data
    directories are whole, start the brokers on the new tree first, which register their topics again, and restore the
    rest with --add.
    """
    try:
        found = read_backup(file)
        topics = plan_topics(found, _now())
    except (LogdError, OSError) as error:
        wrapped = error if isinstance(error, LogdError) else BadBackup(f"{file} cannot be read: {error}")
        report(wrapped)
        ctx.exit(status_of(wrapped))
    if dry_run:
        _show_plan(found, topics, as_json)
        return

    async def work(tree: ICoordination) -> None:
        outcome = await restore_backup(tree, found, _now, _wait, adding)
        if as_json:
            click.echo(json.dumps(_json(outcome)))
        else:
            _show(outcome)

    with_tree(ctx, zookeeper, work)


def _now() -> int:
    return int(time.time() * 1000)


async def _wait(seconds: float) -> None:
    from twisted.internet import reactor  # its import installs a reactor, so not before one is needed

    if seconds > _SILENT_SECONDS:
        complain(
            f"waits {seconds:.0f} s before the topics: the logs of a backup older than two days begin at other "
            "positions in each minute, so that no two restorations give the same"
        )
    await sleep(reactor, seconds)


def _show_plan(backup: Backup, topics: list[RestoredTopic], as_json: bool) -> None:
    rows = [(topic.name, number, begin) for topic in topics for number, begin in topic.beginnings.items()]
    if as_json:
        begins = [{"topic": name, "partition": number, "begins": begin} for name, number, begin in rows]
        head = {"time": moment(backup), "logd": backup.version, "cluster": backup.cluster}
        click.echo(json.dumps({**head, **contents(backup), "logs": begins}))
        return
    complain(f"{described(backup)}, as of {moment(backup)}, by logd {backup.version}; nothing is changed")
    show(["topic", "partition", "would begin at"], rows)


def _json(outcome: RestoreOutcome) -> dict[str, Any]:
    return {
        "topics": sorted(topic.name for topic in outcome.topics),
        "kept_topics": sorted(outcome.kept_topics),
        "groups": len(outcome.groups),
        "positions": outcome.positions,
        "security": outcome.security,
        "schemas": outcome.schemas,
        "kept": sorted(outcome.kept),
        "registered_again": sorted(outcome.registered_again),
    }


def _first(names: list[str]) -> str:
    return ", ".join(sorted(names)[:_NAMED]) + (", ..." if len(names) > _NAMED else "")


def _show(outcome: RestoreOutcome) -> None:
    partitions = sum(len(topic.entry.partitions) for topic in outcome.topics)
    click.echo(
        f"restored {counted(len(outcome.topics), 'topic')} with {counted(partitions, 'partition')}, "
        f"{counted(outcome.positions, 'position')} of {counted(len(outcome.groups), 'group')}, "
        f"{counted(outcome.security, 'node')} of users, rules and quotas, "
        f"{counted(outcome.schemas, 'node')} of schemas"
    )
    if outcome.topics:
        brokers = sorted({broker for topic in outcome.topics for broker in topic.ends})
        named = ", ".join(map(str, brokers))
        click.echo(
            "each log begins empty, behind every position that was given, once its broker runs "
            f"(broker{'s' if len(brokers) > 1 else ''} {named})"
        )
    replicated = [topic.name for topic in outcome.topics if topic.entry.replicated]
    if replicated:
        complain(
            f"{counted(len(replicated), 'topic')} with replicas ({_first(replicated)}) will have no leader before "
            "`logd elect TOPIC --unclean`, once all brokers run: nobody knows any more which replicas were in sync"
        )
    for what, names in (("topics", outcome.kept_topics), ("nodes", outcome.kept)):
        if names:
            complain(f"{len(names)} {what} of the tree were left as they are: {_first(names)}")
    if outcome.registered_again:
        complain(
            f"{counted(len(outcome.registered_again), 'topic')} of the tree had been deleted before the backup "
            f"({_first(outcome.registered_again)}): registered again by brokers that were away then; delete again what "
            "is not wanted"
        )
    if outcome.cluster_changed:
        complain("the cluster has its former uuid again: restart brokers that ran, so that they tell it to clients")
