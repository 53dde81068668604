"""``logd tree``: shows which nodes of the coordination tree are protected, protects an existing tree, or opens it."""

from __future__ import annotations

import json
from typing import Any

import click

from logd.cli.options import json_option, zookeeper_option
from logd.cli.terminal.exits import complain
from logd.cli.terminal.prompts import agree
from logd.cli.terminal.tables import show
from logd.cli.tree_session import with_tree
from logd.coord.access_lists import Protection
from logd.coord.errors import NoAuth
from logd.coord.interfaces import ICoordination
from logd.coord.protection import PlaceSummary, Replacement, TreeProtection, opening_list
from logd.coord.registries.access_rules import read_rules
from logd.coord.registries.users import list_users
from logd.errors import ConfigurationError, LogdError
from logd.plurals import counted

_CREDENTIALS = "LOGD_ZOOKEEPER_DIGEST_FILE (a file with USER:PASSWORD, the brokers' zookeeper.digest.file)"
_EPILOG = """\b
Examples:
  logd tree status
  logd tree protect --dry-run
  LOGD_ZOOKEEPER_DIGEST_FILE=tree.secret logd tree protect --yes
  LOGD_ZOOKEEPER_DIGEST_FILE=tree.secret logd tree unprotect --yes
"""

dry_run_option = click.option("--dry-run", is_flag=True, help="Print the nodes that would change; change nothing.")
yes_option = click.option("--yes", "-y", is_flag=True, help="Do not ask.")


@click.group(epilog=_EPILOG)
def tree() -> None:
    """Show and change who may write to the coordination tree.

    Whoever can write to the tree can do what brokers do. Brokers with credentials (zookeeper.digest.file) protect the
    nodes that they make; `logd tree protect` does the same for nodes that exist already.
    """


@tree.command(epilog=_EPILOG)
@zookeeper_option
@json_option
@click.option("--paths", is_flag=True, help="Print each node that is not protected, instead of numbers.")
@click.pass_context
def status(ctx: click.Context, /, zookeeper: str, as_json: bool, paths: bool) -> None:
    """Print which parts of the tree are protected. The exit status is 1 if some part is not.

    Without credentials, what only brokers may read counts as protected, and nodes that belong to others as well.
    """

    async def work(client: ICoordination) -> None:
        protection = await _protection(client)
        if paths:
            bad = await _print_paths(protection, as_json)
        else:
            rows = await protection.summary()
            bad = any(row.worst is not Protection.PROTECTED for row in rows)
            _print_summary(rows, as_json)
        others = await protection.others_at_root()
        if others and not as_json:
            complain(_shared(others))
        if not protection.with_groups and not as_json:
            complain("groups are open to all clients: the cluster has neither users nor rules")
        if bad:
            raise LogdError("not all of the tree is protected; `logd tree protect --dry-run` shows what would change")

    with_tree(ctx, zookeeper, work)


@tree.command(epilog=_EPILOG, short_help="Close what only brokers write to everybody else.")
@zookeeper_option
@dry_run_option
@yes_option
@click.option("--force", is_flag=True, help="Protect the tree even if brokers run without these credentials.")
@click.pass_context
def protect(ctx: click.Context, /, zookeeper: str, dry_run: bool, yes: bool, force: bool) -> None:
    """Give the nodes that only brokers write to the brokers, by the credentials in LOGD_ZOOKEEPER_DIGEST_FILE.

    Give all brokers the credentials first, and start them again: a broker without them could not write any more. Groups
    are closed as well if there are users; their members are let in again by brokers, by the access rules. The command
    can be interrupted and repeated at any time. The root is left alone if other applications have nodes there.
    """

    async def work(client: ICoordination) -> None:
        protection = await _protection(client)
        _demand_credentials(protection)
        strangers = await protection.strangers()
        if strangers and not force:
            named = ", ".join(strangers[:10])
            raise LogdError(
                f"nothing was done: {counted(len(strangers), 'broker')} ({named}) run without these credentials, and "
                "could not write to the tree any more. Set zookeeper.digest.file there and start them again, or give "
                "--force"
            )
        others = await protection.others_at_root()
        if others:
            complain(_shared(others))
        if dry_run or not yes:
            found = await _plan(protection, protection.protecting_list, not others, dry_run)
            if dry_run:
                return
            agree(f"Protect {counted(found, 'node')} of the tree at {zookeeper}?")
        changed: list[str] = []
        failed = await protection.protect(changed.append, not others)
        _report("protected", len(changed), failed)

    with_tree(ctx, zookeeper, work)


@tree.command(epilog=_EPILOG, short_help="Open the tree to everybody, secrets included.")
@zookeeper_option
@dry_run_option
@yes_option
@click.pass_context
def unprotect(ctx: click.Context, /, zookeeper: str, dry_run: bool, yes: bool) -> None:
    """Open the tree to everybody, secrets included, as it was before it was protected.

    Brokers that still have credentials protect the nodes that they make from then on. Change the brokers' secret by
    removing /security/secret if the tree could be read by others meanwhile.
    """

    async def work(client: ICoordination) -> None:
        protection = TreeProtection(client, True)
        _demand_credentials(protection)
        if dry_run or not yes:
            found = await _plan(protection, opening_list, True, dry_run)
            if dry_run:
                return
            agree(f"Let everybody who reaches {zookeeper} read and change {counted(found, 'node')}?")
        changed: list[str] = []
        failed = await protection.unprotect(changed.append)
        _report("opened", len(changed), failed)

    with_tree(ctx, zookeeper, work)


async def _protection(client: ICoordination) -> TreeProtection:
    """Return what looks at the tree. Groups are open to all only while there are neither users nor rules."""
    try:
        closed = bool(await list_users(client) or await read_rules(client))
    except NoAuth:
        closed = True
    return TreeProtection(client, closed)


def _demand_credentials(protection: TreeProtection) -> None:
    if not protection.access.own:
        raise ConfigurationError(
            f"the brokers' credentials are needed, {_CREDENTIALS}; for a new one: "
            '(umask 077; echo "logd:$(openssl rand -hex 32)" > tree.secret)'
        )


def _shared(others: list[str]) -> str:
    named = ", ".join(f"/{name}" for name in sorted(others)[:5])
    return (
        f"the root has nodes of other applications ({named}), and is left to them: whoever may delete there can remove "
        "/controller and /cluster. A tree below a path of its own, HOST:PORT/PATH, has no such neighbours"
    )


async def _plan(protection: TreeProtection, wanted: Replacement, with_root: bool, print_them: bool) -> int:
    """Count the nodes that would change, and print them if asked to."""
    found = 0
    async for place, nodes in protection.walk():
        for node in nodes:
            if (place != "/" or with_root) and wanted(node) is not None:
                found += 1
                if print_them:
                    click.echo(f"{node.path}\t{node.state.value}")
    if print_them:
        complain(f"{counted(found, 'node')} would change; nothing was changed")
    return found


async def _print_paths(protection: TreeProtection, as_json: bool) -> bool:
    """Print each node that is not protected, one JSON object a line for scripts; return whether there is one."""
    bad = False
    async for _, nodes in protection.walk():
        for node in nodes:
            if node.state is not Protection.PROTECTED:
                bad = True
                row: dict[str, Any] = {"path": node.path, "state": node.state.value, "meant_for": node.kind.value}
                click.echo(json.dumps(row) if as_json else f"{node.path}\t{node.state.value}")
    return bad


def _print_summary(rows: list[PlaceSummary], as_json: bool) -> None:
    columns = ("path", "meant for", "nodes", "protected", "open", "readable", "of others", "state")
    table = [
        (
            row.path,
            row.kind.value,
            row.nodes,
            *(
                row.counts[each]
                for each in (
                    Protection.PROTECTED,
                    Protection.OPEN,
                    Protection.READABLE,
                    Protection.FOREIGN,
                )
            ),
            row.worst.value,
        )
        for row in rows
    ]
    if as_json:
        names = [name.replace(" ", "_") for name in columns]
        click.echo(json.dumps([dict(zip(names, each, strict=True)) for each in table]))
    else:
        show(columns, table)


def _report(done: str, changed: int, failed: int) -> None:
    click.echo(f"{done} {counted(changed, 'node')}")
    if failed:
        raise LogdError(
            f"{counted(failed, 'node')} could not be changed with these credentials: `logd tree status --paths` names "
            "them; give the credentials of their owner"
        )
