"""The bond of a client with the event loop in which it was made."""

from __future__ import annotations

import asyncio
from asyncio.events import _get_running_loop
from collections.abc import Awaitable, Mapping, Sequence
from typing import Any, TypeVar

from attrs import fields
from twisted.internet.defer import Deferred

from logd.aio.futures import DeferredFuture, drive, future_for
from logd.aio.loop_clock import CloseNow, LoopClock, clock_of_running_loop
from logd.aio.loop_connection import loop_connect
from logd.client.cluster.link import Connect
from logd.client.log_warnings import warn_without_log
from logd.client.setting_names import read_settings
from logd.client.settings import LinkSettings
from logd.clientcore.addresses import parse_brokers

T = TypeVar("T")

#: The addresses that a client starts from; see addresses.parse_brokers.
Brokers = str | Sequence[str | tuple[str, int]]


class LoopBond:
    """The running event loop and its clock, for one client called ``name`` in errors."""

    def __init__(self, name: str) -> None:
        """Bind to the running loop. Raises RuntimeError where no loop runs."""
        if _get_running_loop() is None:
            raise RuntimeError(
                f"no event loop is running: create the {name} in a coroutine, such as main() of asyncio.run(main())"
            )
        self._name = name
        self.clock: LoopClock = clock_of_running_loop()
        self.loop: asyncio.AbstractEventLoop = self.clock.loop

    def check(self) -> None:
        """Raise RuntimeError, with the remedy, unless called from code that runs in the client's own event loop."""
        if _get_running_loop() is self.loop:
            return
        if self.loop.is_closed():
            raise RuntimeError(
                f"the event loop of this {self._name} has ended: create a new {self._name} in each asyncio.run()"
            )
        raise RuntimeError(
            f"this {self._name} is used outside the event loop in which it was created: from a thread, pass the call "
            "to the loop with asyncio.run_coroutine_threadsafe() or loop.call_soon_threadsafe(), or use "
            "logd.client.blocking"
        )

    def network(self, brokers: Brokers | None, settings: Mapping[str, Any]) -> Connect:
        """Return the function by which a client with these settings connects over the network.

        Raises ConfigurationError for an address or a setting that is not allowed.
        """
        warn_without_log()
        names = {field.name for field in fields(LinkSettings)}
        (links,) = read_settings({name: value for name, value in settings.items() if name in names}, LinkSettings)
        return loop_connect(self.loop, () if brokers is None else parse_brokers(brokers), links)

    def future(self, deferred: Deferred[T]) -> DeferredFuture[T]:
        """Return a future of the loop for a Deferred."""
        return future_for(self.loop, deferred)

    async def drive(self, awaitable: Awaitable[T]) -> T:
        """Run a coroutine over Deferreds in the current task; see futures.drive."""
        return await drive(self.loop, awaitable)

    def keep(self, client: Any, close_now: CloseNow) -> None:
        """Close ``client`` when the loop ends, unless it was closed before; see LoopClock.add."""
        self.clock.add(client, close_now)

    async def close(self, client: Any, closing: Deferred[None]) -> None:
        """Wait until a client is closed, and forget it."""
        await self.future(closing)
        self.clock.remove(client)
