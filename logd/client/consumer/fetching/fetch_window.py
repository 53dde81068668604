"""The fetches of one partition that are in flight, and the position of the next one."""

from __future__ import annotations

from typing import NamedTuple

#: Fetches of one partition in flight at a time, and full answers in a row after which the next one counts as full.
MOST_UNDER_WAY = 2
SURE_AFTER = 2


class Wanted(NamedTuple):
    """A fetch to make. ``generation`` tells answers that came too late."""

    offset: int
    max_bytes: int
    exact: bool
    generation: int


class FetchWindow:
    """The window of one partition, sans-IO.

    All bytes up to ``at`` are here; ``exact`` is true once it is known where the bytes of an answer begin.
    """

    def __init__(self) -> None:
        self.at = 0
        self.exact = False
        self.generation = 0
        #: True while ``at`` is a guess at the log's start, until an answer says whether the log begins there.
        self.assumed = False
        #: Fetches of this generation that are not answered, and the number of full answers in a row.
        self._under_way: list[Wanted] = []
        self._full_answers = 0
        #: The bytes that the answers to come may bring at most.
        self.asked_bytes = 0

    def restart(self, position: int, *, exact: bool) -> None:
        """Void the fetches in flight, and fetch from ``position`` next."""
        self.generation += 1
        self.at, self.exact, self.assumed = position, exact, False
        self._under_way.clear()
        self._full_answers = self.asked_bytes = 0

    def next(self, most: int, held: int, share: int, missing: int, visible_end: int) -> Wanted | None:
        """Return the next fetch, of ``most`` bytes, while ``held`` of ``share`` bytes are here; None for no fetch now.

        ``missing``: further bytes without which nothing can be decoded: the entry at hand is longer than all that is
        held.
        """
        under_way = self._under_way
        if len(under_way) >= MOST_UNDER_WAY:
            return None
        if missing > 0 and not under_way:
            return Wanted(self.at, max(missing, most), self.exact, self.generation)
        at = self.at
        for wanted in under_way:  # the end of these fetches, if each answer is full
            if wanted.offset == at:
                at += wanted.max_bytes
        if at > self.at and not (self._full_answers >= SURE_AFTER and at < visible_end):
            return None
        room = share - held - (at - self.at)
        if room < most // 2:
            return None
        return Wanted(at, min(most, room), self.exact, self.generation)

    def asked(self, wanted: Wanted) -> None:
        """Note that a fetch was sent."""
        self._under_way.append(wanted)
        self.asked_bytes += wanted.max_bytes

    def answered(self, wanted: Wanted) -> bool:
        """Note that a fetch was answered or has failed; return whether its answer is still of use."""
        if wanted.generation != self.generation:
            return False
        if wanted in self._under_way:
            self._under_way.remove(wanted)
            self.asked_bytes -= wanted.max_bytes
        return True

    def received(self, wanted: Wanted, first_position: int, size: int) -> bool:
        """Note an answer of ``size`` bytes from ``first_position``; return whether it has any bytes."""
        self._full_answers = self._full_answers + 1 if size == wanted.max_bytes else 0
        if not size:
            return False
        self.exact = True
        self.at = first_position + size
        return True
