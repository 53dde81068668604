"""``logd topics set`` and ``logd topics grow``: change topics while they are used."""

from __future__ import annotations

import json
from typing import Any

import click

from logd.cli.cluster.admin_command import with_admin
from logd.cli.cluster.setting_parameter import SettingsParameter
from logd.cli.options import broker_option, json_option, topic_argument
from logd.cli.terminal.tables import show
from logd.client.admin.admin import Admin
from logd.config import LogSettings
from logd.errors import ConfigurationError
from logd.plurals import counted
from logd.protocol.requests.alter_topic import AlterTopicResponse

_SET_EPILOG = """\b
Examples:
  logd topics set clicks retention.ms=86400000 segment.bytes=268435456
  logd topics set clicks retention.ms=          # the broker's own again
"""
_GROW_EPILOG = """\b
Examples:
  logd topics grow clicks --partitions 8
"""


class ChangeParameter(click.ParamType[dict[str, str]]):
    """A topic's setting as ``key=value``, or ``key=`` for the broker's own."""

    name = "KEY=VALUE"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> dict[str, str]:
        """Refuse an unknown setting and a value that is not allowed."""
        name, equals, text = str(value).partition("=")
        if not (equals and not text.strip()):
            return {key: str(each) for key, each in SettingsParameter().convert(value, param, ctx).items()}
        try:
            LogSettings.check_names([name.strip()])
        except ConfigurationError as error:
            self.fail(str(error), param, ctx)
        return {name.strip(): ""}


@click.command("set", short_help="Change settings of a topic.", epilog=_SET_EPILOG)
@topic_argument
@click.argument("changes", type=ChangeParameter(), nargs=-1, required=True, metavar="KEY=VALUE...")
@broker_option
@json_option
@click.pass_context
def set_settings(
    ctx: click.Context, /, topic: str, changes: tuple[dict[str, str], ...], broker: str, as_json: bool
) -> None:
    """Change settings of TOPIC while it is used, and print all that it has of its own.

    The settings are those of docs/configuration.md, Logs; KEY= without a value removes the topic's own, so that the
    broker's holds again. The broker that is asked acts at once, the others within moments.
    """
    merged = {name: value or None for each in changes for name, value in each.items()}

    async def work(admin: Admin) -> None:
        found = await admin.alter(topic, merged)
        if as_json:
            _print_json(topic, found)
        elif found.settings:
            show(["setting", "value"], sorted(found.settings.items()))
        else:
            click.echo(f"{topic} has no settings of its own")

    with_admin(ctx, broker, work)


@click.command(short_help="Give a topic more partitions.", epilog=_GROW_EPILOG)
@topic_argument
@click.option(
    "--partitions", "-p", type=click.IntRange(1), required=True, metavar="N", help="Number of partitions in all."
)
@broker_option
@json_option
@click.pass_context
def grow(ctx: click.Context, /, topic: str, partitions: int, broker: str, as_json: bool) -> None:
    """Give TOPIC more partitions, N in all, while it is used. Partitions are never removed.

    Groups and producers take up the new partitions without a restart. A message with a key may then go to another
    partition than earlier ones with that key.
    """

    async def work(admin: Admin) -> None:
        found = await admin.alter(topic, partitions=partitions)
        if as_json:
            _print_json(topic, found)
        else:
            click.echo(f"{topic} has {counted(found.partitions, 'partition')}")

    with_admin(ctx, broker, work)


def _print_json(topic: str, found: AlterTopicResponse) -> None:
    value = {"topic": topic, "uuid": found.uuid, "partitions": found.partitions, "settings": dict(found.settings)}
    click.echo(json.dumps(value))
