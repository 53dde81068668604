"""The fetches of one partition that are under way, and the position from which the next one asks."""

from __future__ import annotations

from typing import NamedTuple

#: Pieces of one partition that are asked for at a time, and full answers in a row after which the next counts as full.
MOST_UNDER_WAY = 2
SURE_AFTER = 2


class Wanted(NamedTuple):
    """What to ask the broker for; ``generation`` tells an answer that came too late."""

    offset: int
    max_bytes: int
    exact: bool
    generation: int


class FetchWindow:
    """Sans-IO. Up to ``at`` all bytes are here; ``exact`` once it is known where the bytes of an answer begin."""

    def __init__(self) -> None:
        self.at = 0
        self.exact = False
        self.generation = 0
        #: Not answered yet, of this generation, and how many answers in a row were full.
        self._under_way: list[Wanted] = []
        self._full_answers = 0

    def restart(self, position: int, *, exact: bool) -> None:
        """Make void what is under way, and ask from ``position`` next."""
        self.generation += 1
        self.at, self.exact = position, exact
        self._under_way.clear()
        self._full_answers = 0

    def next(self, most: int, held: int, share: int, missing: int, visible_end: int) -> Wanted | None:
        """Return what to ask for, ``most`` bytes, while ``held`` of ``share`` bytes are here; None for nothing now.

        ``missing``: bytes without which there is no way on, since the entry at hand is longer than all that is held.
        """
        under_way = self._under_way
        if len(under_way) >= MOST_UNDER_WAY:
            return None
        if missing > 0 and not under_way:
            return Wanted(self.at, max(missing, most), self.exact, self.generation)
        at = self.at
        for wanted in under_way:  # where that ends, if each answer is full
            if wanted.offset == at:
                at += wanted.max_bytes
        if at > self.at and not (self._full_answers >= SURE_AFTER and at < visible_end):
            return None
        room = share - held - (at - self.at)
        if room < most // 2:
            return None
        return Wanted(at, min(most, room), self.exact, self.generation)

    def asked(self, wanted: Wanted) -> None:
        """Note that this was asked for."""
        self._under_way.append(wanted)

    def answered(self, wanted: Wanted) -> bool:
        """Note that an answer came, or never will; return whether it is still of use."""
        if wanted.generation != self.generation:
            return False
        if wanted in self._under_way:
            self._under_way.remove(wanted)
        return True

    def received(self, wanted: Wanted, first_position: int, size: int) -> bool:
        """Note an answer of ``size`` bytes from ``first_position``; return whether there are any."""
        self._full_answers = self._full_answers + 1 if size == wanted.max_bytes else 0
        if not size:
            return False
        self.exact = True
        self.at = first_position + size
        return True
