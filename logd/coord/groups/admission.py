"""The admission of a consumer to its group: the group is prepared for its user, and nothing refuses it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from attrs import define, field

#: Has a group's nodes given to the user of a member; with True, each of them. Fails with a LogdError.
Prepare = Callable[[bool], Awaitable[None]]


@define(eq=False)
class Admission:
    """The admission of one member."""

    #: None where groups are open to every client of the tree.
    _prepare: Prepare | None
    #: The argument of the next call of ``prepare``; None if none is needed.
    _next: bool | None = field(default=False, init=False)
    #: True if the last attempt was refused, so that it is logged once.
    refused: bool = field(default=False, init=False)

    @property
    def can_prepare(self) -> bool:
        """True if a broker can be asked for the group's nodes."""
        return self._prepare is not None

    async def ask(self) -> None:
        """Have the group prepared, the first time and after ``ask_again``."""
        if self._prepare is not None and self._next is not None:
            await self._prepare(self._next)
            self._next = None

    def ask_again(self) -> None:
        """Have every node of the group looked at: the tree has refused one."""
        self._next = True
