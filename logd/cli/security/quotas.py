"""``logd quotas``: set, list and remove the limits of users, which are kept in the coordination tree."""

from __future__ import annotations

import json
import re
from typing import Any

import click
from attrs import evolve

from logd.cli.options import json_option, zookeeper_option
from logd.cli.security.acl import PrincipalParameter
from logd.cli.terminal.tables import show
from logd.cli.tree_session import with_tree
from logd.coord.interfaces import ICoordination
from logd.coord.registries.quotas import change_quota, read_quotas
from logd.errors import ConfigurationError, LogdError
from logd.plurals import counted
from logd.security.principals import EVERYONE
from logd.security.quotas import FIELDS, MEANINGS, NO_QUOTA, Quota, check_owner

_UNITS = {"": 1, "k": 1000, "M": 1000**2, "G": 1000**3}
_VALUE = re.compile(r"([0-9]{1,16})([kMG]?)\Z")
_MEANINGS = "\n".join(f"  {name:<12} {meaning}" for name, meaning in MEANINGS.items())
_SET_EPILOG = f"""\b
The limits:
{_MEANINGS}

\b
Examples:
  logd quotas set alice bytes.in=5M bytes.out=20M
  logd quotas set reports requests=20 connections=50 topics=10
  logd quotas set '*' bytes.in=10M
  logd quotas set alice bytes.in=none
"""


class LimitParameter(click.ParamType[tuple[str, int | None]]):
    """LIMIT=VALUE: the field of a limit, and its value, None for no limit."""

    name = "LIMIT=VALUE"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, int | None]:
        """Refuse what is no limit, and values that it cannot have."""
        if isinstance(value, tuple):
            return value
        name, equals, text = str(value).partition("=")
        if not equals or name not in FIELDS:
            self.fail(f"{value!r} is not allowed; allowed is LIMIT=VALUE with one of {', '.join(FIELDS)}", param, ctx)
        if text == "none":
            return FIELDS[name], None
        found = _VALUE.match(text)
        if found is None:
            self.fail(f"{name} = {text!r} is not allowed; allowed is a whole number (10k, 5M, 1G) or none", param, ctx)
        number = int(found[1]) * _UNITS[found[2]]
        try:
            Quota(**{FIELDS[name]: number})
        except ConfigurationError as error:
            self.fail(str(error), param, ctx)
        return FIELDS[name], number


@click.group()
def quotas() -> None:
    """Limit what each user may use of a broker, list the limits, and remove them.

    Brokers follow a change within a second, also for connections that are open. A limit on bytes or on requests is kept
    by not reading from the user's connections for a while: nothing is refused or lost, and the user's clients wait. A
    limit on connections, topics and partitions is kept by refusing what would be one too many.

    The limits of '*' hold for each user that has no limit of its own of that kind; `anonymous` stands for all clients
    that have not authenticated, together.
    """


class OwnerParameter(PrincipalParameter):
    """The name of a user that may have limits."""

    name = "USER"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Refuse a name that no user can have, and that of brokers."""
        try:
            return check_owner(super().convert(value, param, ctx))
        except ConfigurationError as error:
            self.fail(str(error), param, ctx)


@quotas.command("set", short_help="Give a user limits.", epilog=_SET_EPILOG)
@click.argument("user", type=OwnerParameter(), metavar="USER")
@click.argument("limits", type=LimitParameter(), nargs=-1, required=True)
@zookeeper_option
@click.pass_context
def set_quota(ctx: click.Context, /, zookeeper: str, user: str, limits: tuple[tuple[str, int | None], ...]) -> None:
    """Give USER limits, in place of those of the same kind; its others stay. The value none takes a limit away."""

    async def work(tree: ICoordination) -> None:
        new = await change_quota(tree, user, lambda quota: evolve(quota, **dict(limits)))
        click.echo(f"{_named(user)}: {_text(new)}")

    with_tree(ctx, zookeeper, work)


@quotas.command("list")
@json_option
@zookeeper_option
@click.pass_context
def list_quotas(ctx: click.Context, /, zookeeper: str, as_json: bool) -> None:
    """Print the limits of users; '*' stands for all others."""

    async def work(tree: ICoordination) -> None:
        unreadable: list[str] = []
        found = await read_quotas(tree, lambda path, error: unreadable.append(f"{path}: {error}"))
        if as_json:
            click.echo(json.dumps([{"user": user, **quota.limits()} for user, quota in found.items()]))
        else:
            show(
                ["user", *FIELDS],
                [(user, *(quota.limits().get(name) for name in FIELDS)) for user, quota in found.items()],
            )
        if unreadable:
            raise LogdError(f"{counted(len(unreadable), 'node')} cannot be read as a quota: {unreadable[0]}")

    with_tree(ctx, zookeeper, work)


@quotas.command()
@click.argument("user", type=PrincipalParameter(), metavar="USER")
@zookeeper_option
@click.pass_context
def remove(ctx: click.Context, /, zookeeper: str, user: str) -> None:
    """Remove all limits of USER; those of '*' hold for it then. If it has none, that is an error (exit status 1)."""

    async def work(tree: ICoordination) -> None:
        if user not in await read_quotas(tree):
            raise LogdError(f"{_named(user)} has no limits. `logd quotas list` shows all")
        await change_quota(tree, user, lambda _: NO_QUOTA)
        click.echo(f"{_named(user)} has no limits any more")

    with_tree(ctx, zookeeper, work)


def _named(user: str) -> str:
    return "everyone without a limit of its own" if user == EVERYONE else user


def _text(quota: Quota) -> str:
    return ", ".join(f"{name} = {value}" for name, value in quota.limits().items()) or "no limits"
