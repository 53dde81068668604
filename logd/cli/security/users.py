"""``logd users``: add, list and remove users, and change their passwords; they are kept in the coordination tree."""

from __future__ import annotations

import json
import secrets
from typing import Any

import click

from logd.cli.options import json_option, zookeeper_option
from logd.cli.terminal.prompts import is_person_there
from logd.cli.terminal.tables import show
from logd.cli.tree_session import with_tree
from logd.coord.interfaces import ICoordination
from logd.coord.registries.access_rules import read_rules
from logd.coord.registries.users import add_user, change_user, list_users, remove_user
from logd.errors import ConfigurationError, LogdError
from logd.net.credentials import read_password
from logd.plurals import counted
from logd.security.users import User, check_user_name

_EPILOG = """\b
Examples:
  logd users add alice --password-file alice.secret
  logd users add alice                                  (asks for the password)
  LOGD_USER=alice LOGD_PASSWORD_FILE=alice.secret logd topics list
"""


class UserParameter(click.ParamType[str]):
    """The name of a user."""

    name = "NAME"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Refuse a name that no user can have."""
        try:
            return check_user_name(str(value))
        except ConfigurationError as error:
            self.fail(str(error), param, ctx)


user_argument = click.argument("name", type=UserParameter())
password_option = click.option(
    "--password-file",
    metavar="FILE",
    type=click.Path(),
    help="A file with one line, the password; at a terminal it is asked for without this option.",
)


@click.group()
def users() -> None:
    """Say who may connect: users with passwords, of which only what checks them is kept.

    Brokers follow a change within a second; a user that is removed, or whose password changes, is cut off. With the
    first user brokers allow only what access rules allow (`logd acl add`), and superusers everything
    (security.superusers). Clients take the user from LOGD_USER, and the password from the file LOGD_PASSWORD_FILE or
    from LOGD_PASSWORD.
    """


@users.command(epilog=_EPILOG)
@user_argument
@password_option
@zookeeper_option
@click.pass_context
def add(ctx: click.Context, /, zookeeper: str, name: str, password_file: str | None) -> None:
    """Add the user NAME. A user that exists already is an error (exit status 1)."""
    user = _user(ctx, name, password_file)

    async def work(tree: ICoordination) -> None:
        first = not await list_users(tree) and not await read_rules(tree)
        if not await add_user(tree, name, user):
            raise LogdError(f"the user {name} exists already; `logd users password {name}` changes the password")
        click.echo(f"added user {name}")
        if first:
            click.echo(
                "This is the first user: from now on brokers allow only what rules allow (logd acl add), and all "
                "to superusers (the brokers' setting security.superusers).",
                err=True,
            )

    with_tree(ctx, zookeeper, work)


@users.command()
@user_argument
@password_option
@zookeeper_option
@click.pass_context
def password(ctx: click.Context, /, zookeeper: str, name: str, password_file: str | None) -> None:
    """Give the user NAME another password. Its connections are cut off."""
    user = _user(ctx, name, password_file)

    async def work(tree: ICoordination) -> None:
        if not await change_user(tree, name, user):
            raise _unknown(name)
        click.echo(f"changed the password of user {name}")

    with_tree(ctx, zookeeper, work)


@users.command()
@user_argument
@zookeeper_option
@click.pass_context
def remove(ctx: click.Context, /, zookeeper: str, name: str) -> None:
    """Remove the user NAME. Its connections are cut off; its access rules stay."""

    async def work(tree: ICoordination) -> None:
        if not await remove_user(tree, name):
            raise _unknown(name)
        click.echo(f"removed user {name}")
        rules = await read_rules(tree)
        kept = [rule for rule in rules if rule.principal == name]
        if kept:
            click.echo(
                f"{counted(len(kept), 'access rule')} of {name} stayed, for a new user of that name: "
                f"`logd acl list --principal {name}`",
                err=True,
            )
        if not rules and not await list_users(tree):
            click.echo(
                "This was the last user, and there are no rules: brokers without security.required = true are open to "
                "whoever can connect.",
                err=True,
            )

    with_tree(ctx, zookeeper, work)


@users.command("list")
@json_option
@zookeeper_option
@click.pass_context
def list_names(ctx: click.Context, /, zookeeper: str, as_json: bool) -> None:
    """Print the names of the users."""

    async def work(tree: ICoordination) -> None:
        names = await list_users(tree)
        if as_json:
            click.echo(json.dumps(names))
        else:
            show(["user"], [(name,) for name in names])

    with_tree(ctx, zookeeper, work)


def _user(ctx: click.Context, name: str, password_file: str | None) -> User:
    """Make a user with the password in a file, or the one that a person types. Raises ConfigurationError."""
    try:
        if password_file is not None:
            return User.of(name, read_password(password_file), secrets.token_bytes)
        if not is_person_there():
            raise click.UsageError("give the password in a file: --password-file FILE", ctx)
        typed = click.prompt("Password", hide_input=True, confirmation_prompt=True, err=True)
        return User.of(name, typed, secrets.token_bytes)
    except ConfigurationError as error:
        raise click.UsageError(str(error), ctx) from error


def _unknown(name: str) -> LogdError:
    return LogdError(f"there is no user {name}; `logd users list` shows all")
