"""The run of a command's work with an Admin."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import click

from logd.cli.reactor_command import run
from logd.client.admin.admin import Admin
from logd.errors import UnknownTopic
from logd.protocol.requests.metadata import TopicMetadata


def with_admin(ctx: click.Context, broker: str, work: Callable[[Admin], Awaitable[None]]) -> None:
    """Run ``work`` with an Admin, close the Admin, and end the command with the status of the work."""

    async def running(reactor: Any) -> None:
        admin = Admin(broker, reactor=reactor)
        try:
            await work(admin)
        finally:
            await admin.close()

    ctx.exit(run(running))


async def described_again(admin: Admin, topic: TopicMetadata) -> TopicMetadata:
    """Describe a topic once more. Raises UnknownTopic if it is deleted, or another topic has its name now."""
    found = await admin.describe(topic.topic)
    if found.uuid != topic.uuid:
        raise UnknownTopic(f"topic {topic.topic!r} was made again meanwhile: give the command again for the new one")
    return found
