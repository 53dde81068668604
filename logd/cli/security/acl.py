"""``logd acl``: add, list, remove and test access rules, which are kept in the coordination tree."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from itertools import product
from typing import Any, TypeVar

import click

from logd.cli.options import json_option, zookeeper_option
from logd.cli.terminal.tables import show
from logd.cli.tree_session import with_tree
from logd.coord.errors import CoordinationError
from logd.coord.interfaces import ICoordination
from logd.coord.registries.access_rules import add_rule, read_rules, remove_rule
from logd.coord.registries.users import list_users
from logd.errors import ConfigurationError, InvalidTopic, LogdError
from logd.plurals import counted
from logd.security.access_rules import (
    CLUSTER_NAME,
    AccessRule,
    AccessRules,
    Effect,
    Match,
    Operation,
    ResourceType,
)
from logd.security.principals import ANONYMOUS, EVERYONE, check_principal
from logd.topic import check_topic_name

Command = TypeVar("Command", bound=Callable[..., Any])

_EPILOG = """\b
Examples:
  logd acl add alice --allow write --topic clicks
  logd acl add alice --allow create --allow write --topic-prefix web.
  logd acl add reports --allow read --topic clicks --group reports
  logd acl add '*' --deny delete --topic-prefix audit.
"""
_TEST_EPILOG = """\b
Examples:
  logd acl test alice write --topic clicks
  logd acl test anonymous read --topic clicks && echo "everybody can read clicks"
"""
_OPERATIONS = [operation.value for operation in Operation]


class PrincipalParameter(click.ParamType[str]):
    """The name of a user, ``anonymous``, or ``*``."""

    name = "PRINCIPAL"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Refuse a name that no user can have."""
        if value in (ANONYMOUS, EVERYONE):
            return str(value)
        try:
            return check_principal(str(value))
        except ConfigurationError as error:
            self.fail(str(error), param, ctx)


def resource_options(command: Command) -> Command:
    """--topic, --topic-prefix, --group, --group-prefix and --cluster."""
    command = click.option("--cluster", is_flag=True, help="The cluster as a whole.")(command)
    for kind in ("group", "topic"):
        command = click.option(
            f"--{kind}-prefix", multiple=True, metavar="PREFIX", help=f"All {kind}s whose names begin so."
        )(command)
        command = click.option(
            f"--{kind}", multiple=True, metavar=kind.upper(), help=f"A {kind}; '*' for all; may be repeated."
        )(command)
    return command


def rule_options(command: Command) -> Command:
    """PRINCIPAL, --allow, --deny and the resources."""
    for effect in ("deny", "allow"):
        command = click.option(
            f"--{effect}",
            type=click.Choice(_OPERATIONS),
            multiple=True,
            help=f"An operation to {effect}; may be repeated.",
        )(command)
    return click.argument("principal", type=PrincipalParameter())(resource_options(command))


@click.group()
def acl() -> None:
    """Say what users may do, list it, and ask why something is refused.

    Brokers follow a change within a second. While there are neither users nor rules, and security.required is false,
    everything is allowed; from the first rule on, only what a rule allows. A denial wins over every permission.
    `anonymous` stands for clients that have not authenticated, and '*' for everybody.
    """


@acl.command(epilog=_EPILOG)
@rule_options
@zookeeper_option
@click.pass_context
def add(ctx: click.Context, /, zookeeper: str, **options: Any) -> None:
    """Add rules for PRINCIPAL. A rule that exists already stays as it is."""
    rules = _rules(ctx, **options)
    try:
        check_names(rules)
    except ConfigurationError as error:
        raise click.UsageError(str(error), ctx) from error

    async def work(tree: ICoordination) -> None:
        first = not await read_rules(tree)
        await _tell_unknown_user(tree, rules[0].principal)
        for rule in rules:
            added = await add_rule(tree, rule)
            click.echo(f"{'added' if added else 'exists already'}: {rule}")
        if first:
            click.echo("These are the first rules: from now on brokers allow only what rules allow.", err=True)

    with_tree(ctx, zookeeper, work)


@acl.command()
@rule_options
@zookeeper_option
@click.pass_context
def remove(ctx: click.Context, /, zookeeper: str, **options: Any) -> None:
    """Remove rules, given as for `logd acl add`. If one does not exist, that is an error (exit status 1)."""
    rules = _rules(ctx, **options)

    async def work(tree: ICoordination) -> None:
        missing = []
        for rule in rules:
            if await remove_rule(tree, rule):
                click.echo(f"removed: {rule}")
            else:
                missing.append(rule)
        if missing:
            raise LogdError(f"there is no such rule: {'; '.join(map(str, missing))}. `logd acl list` shows all")

    with_tree(ctx, zookeeper, work)


@acl.command("list")
@click.option("--principal", type=PrincipalParameter(), help="Only the rules for this principal, and for everybody.")
@click.option("--topic", metavar="TOPIC", help="Only the rules that speak of this topic.")
@click.option("--group", metavar="GROUP", help="Only the rules that speak of this group.")
@json_option
@zookeeper_option
@click.pass_context
def list_rules(
    ctx: click.Context,
    /,
    zookeeper: str,
    principal: str | None,
    topic: str | None,
    group: str | None,
    as_json: bool,
) -> None:
    """Print the rules."""
    wanted = {ResourceType.TOPIC: topic, ResourceType.GROUP: group}
    any_resource = topic is None and group is None

    def is_wanted(rule: AccessRule) -> bool:
        if principal is not None and rule.principal not in (principal, EVERYONE):
            return False
        name = wanted.get(rule.resource_type)
        return any_resource or (name is not None and rule.matches(name))

    async def work(tree: ICoordination) -> None:
        unreadable: list[str] = []
        rules = await read_rules(tree, lambda path, error: unreadable.append(f"{path}: {error}"))
        found = [rule for rule in rules if is_wanted(rule)]
        if as_json:
            click.echo(json.dumps([json.loads(rule.to_json()) for rule in found]))
        else:
            show(
                ["principal", "effect", "operation", "resource", "name"],
                [
                    (
                        rule.principal,
                        rule.effect.value,
                        rule.operation.value,
                        rule.resource_type.value,
                        rule.name + ("*" if rule.match is Match.PREFIX else ""),
                    )
                    for rule in found
                ],
            )
        if unreadable:
            raise LogdError(f"{counted(len(unreadable), 'node')} cannot be read as a rule: {unreadable[0]}")

    with_tree(ctx, zookeeper, work)


@acl.command(short_help="Say whether the rules allow something, and why.", epilog=_TEST_EPILOG)
@click.argument("principal", type=PrincipalParameter())
@click.argument("operation", type=click.Choice([each for each in _OPERATIONS if each != Operation.ALL.value]))
@resource_options
@zookeeper_option
@click.pass_context
def test(ctx: click.Context, /, zookeeper: str, principal: str, operation: str, **resources: Any) -> None:
    """Say whether the rules let PRINCIPAL do OPERATION, and which rule decides; if not, the exit status is 1.

    Superusers, a setting of brokers, are not known here.
    """
    found = [(kind, name) for kind, name, match in _resources(ctx, **resources) if match is Match.LITERAL]
    if len(found) != 1:
        raise click.UsageError("give one resource: --topic TOPIC, --group GROUP or --cluster", ctx)
    ((kind, name),) = found

    async def work(tree: ICoordination) -> None:
        rules = await read_rules(tree)
        what = f"{Operation(operation).verb} {kind.value}" + ("" if kind is ResourceType.CLUSTER else f" {name}")
        rule = AccessRules(rules).deciding(principal, Operation(operation), kind, name)
        if rule is not None and rule.effect is Effect.ALLOW:
            click.echo(f"yes: {principal} may {what}, by the rule: {rule}")
            return
        if not rules:
            raise LogdError(
                f"there are no rules; {principal} may {what} only while there are no users either, and brokers do not "
                "have security.required = true"
            )
        reason = "no rule allows it" if rule is None else f"the rule: {rule}"
        raise LogdError(f"no: {principal} may not {what}: {reason}")

    with_tree(ctx, zookeeper, work)


def _rules(
    ctx: click.Context, principal: str, allow: Iterable[str], deny: Iterable[str], **resources: Any
) -> list[AccessRule]:
    """Return the rules of a command line, one for each operation and resource."""
    effects = [*((Effect.ALLOW, each) for each in allow), *((Effect.DENY, each) for each in deny)]
    places = _resources(ctx, **resources)
    if not effects:
        raise click.UsageError("give what to allow or deny, such as --allow read", ctx)
    if not places:
        raise click.UsageError("give what the rule speaks of, such as --topic TOPIC, --group GROUP or --cluster", ctx)
    try:
        return [
            AccessRule(principal, effect, Operation(operation), kind, name, match)
            for (effect, operation), (kind, name, match) in product(effects, places)
        ]
    except ConfigurationError as error:
        raise click.UsageError(str(error), ctx) from error


async def _tell_unknown_user(tree: ICoordination, name: str) -> None:
    """Print a note if no user is called ``name``: after a slip of the pen a denial would deny nothing."""
    if name in (ANONYMOUS, EVERYONE):
        return
    try:
        users = await list_users(tree)
    except CoordinationError:  # only brokers and administrators may read them
        return
    if name not in users:
        click.echo(
            f"There is no user {name} with a password: the rules are for a client's certificate with that name, or for "
            "a user that is added later.",
            err=True,
        )


def check_names(rules: Iterable[AccessRule]) -> None:
    """Raise ConfigurationError for a rule about names that no topic can have.

    A denial of that kind would leave open what it seems to close.
    """
    for rule in rules:
        if rule.resource_type is not ResourceType.TOPIC or (rule.name, rule.match) == (EVERYONE, Match.LITERAL):
            continue
        try:
            # Of a prefix the characters count; "." is one, though no topic may be called so.
            check_topic_name(rule.name if rule.match is Match.LITERAL else f"{rule.name[:199]}x")
        except InvalidTopic as error:
            begins = rule.name.removesuffix("*")
            hint = f"; --topic-prefix {begins} is for all that begin so" if begins not in ("", rule.name) else ""
            raise ConfigurationError(f"the rule would be for no topic: {error}{hint}") from error


def _resources(
    ctx: click.Context,
    topic: Iterable[str],
    topic_prefix: Iterable[str],
    group: Iterable[str],
    group_prefix: Iterable[str],
    cluster: bool,
) -> list[tuple[ResourceType, str, Match]]:
    found = [
        *((ResourceType.TOPIC, name, Match.LITERAL) for name in topic),
        *((ResourceType.TOPIC, name, Match.PREFIX) for name in topic_prefix),
        *((ResourceType.GROUP, name, Match.LITERAL) for name in group),
        *((ResourceType.GROUP, name, Match.PREFIX) for name in group_prefix),
    ]
    if any(not name for _, name, _ in found):
        raise click.UsageError("the name of a resource is empty; '*' stands for all", ctx)
    return [*found, (ResourceType.CLUSTER, CLUSTER_NAME, Match.LITERAL)] if cluster else found
