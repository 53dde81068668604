"""The backlog of one connection: requests that have arrived and are not taken yet."""

from __future__ import annotations

from collections.abc import Sequence

from logd.protocol.conversation.interfaces import Received

#: The most requests that are taken at once; the clock is checked in between.
TURN_REQUESTS = 1000


class Backlog:
    """Requests in order, with the number that expect an answer, and their size."""

    __slots__ = ("_size", "expecting", "requests")

    def __init__(self) -> None:
        #: The requests, each with its token.
        self.requests: Sequence[Received] = ()
        self._size = 0
        #: The number of requests that expect an answer.
        self.expecting = 0

    @property
    def kept_bytes(self) -> int:
        """The approximate size of the requests: those that arrived together count until the last of them is taken."""
        if not self.requests:
            self._size = 0
        return self._size

    def add(self, requests: Sequence[Received], expecting: int, size: int) -> None:
        """Append requests: ``expecting`` of them expect an answer, and they arrived in ``size`` bytes."""
        self.requests = [*self.requests, *requests] if self.requests else requests
        self.expecting += expecting
        self._size += size

    def take(self, room: int) -> Sequence[Received]:
        """Remove and return the first requests: at most TURN_REQUESTS, and at most ``room`` that expect an answer."""
        requests = self.requests
        if self.expecting <= room:
            if len(requests) <= TURN_REQUESTS:
                self.requests, self.expecting = (), 0
                return requests
            count = TURN_REQUESTS
            if self.expecting:
                self.expecting -= _expecting(requests[:count])
        else:
            count = expecting = 0
            for _, token in requests:
                if token is not None:
                    if expecting >= room:
                        break
                    expecting += 1
                count += 1
            self.expecting -= expecting
        self.requests = requests[count:]
        return requests[:count]

    def put_back(self, requests: Sequence[Received]) -> None:
        """Put taken requests that have to wait back at the beginning."""
        self.expecting += _expecting(requests)
        self.requests = [*requests, *self.requests]

    def clear(self) -> None:
        """Drop the requests. ``expecting`` still counts them, as the conversation still waits for their answers."""
        self.requests = ()


def _expecting(requests: Sequence[Received]) -> int:
    return sum([token is not None for _, token in requests])
