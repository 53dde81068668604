"""Dead letters for asyncio's tasks."""

from __future__ import annotations

from logd.aio.loop_bond import LoopBond
from logd.client.dead_letters.writer import DeadLetters
from logd.protocol.message import Message


class AsyncioDeadLetters:
    """``logd.client.dead_letters.writer.DeadLetters`` for the tasks of one event loop."""

    def __init__(self, bond: LoopBond, dead_letters: DeadLetters) -> None:
        self._bond = bond
        self._dead_letters = dead_letters

    @property
    def topic(self) -> str:
        """Return the name of the dead-letter topic."""
        return self._dead_letters.topic

    async def add(self, message: Message, error: BaseException, attempts: int = 1) -> None:
        """Publish a message that could not be handled; return once it is flushed. Raises as DeadLetters.add fails."""
        self._bond.check()
        await self._bond.future(self._dead_letters.add(message, error, attempts))
