"""The run of a command's work with an Admin."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import click

from logd.cli.reactor_command import run
from logd.client.admin.admin import Admin


def with_admin(ctx: click.Context, broker: str, work: Callable[[Admin], Awaitable[None]]) -> None:
    """Run ``work`` with an Admin, close the Admin, and end the command with the status of the work."""

    async def running(reactor: Any) -> None:
        admin = Admin(broker, reactor=reactor)
        try:
            await work(admin)
        finally:
            await admin.close()

    ctx.exit(run(running))
