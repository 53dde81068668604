"""The requests of one connection that have come and were not taken yet."""

from __future__ import annotations

from collections.abc import Sequence

from logd.protocol.conversation.interfaces import Received

#: Requests that are taken together: the clock is looked at between them.
TURN_REQUESTS = 1000


class Backlog:
    """Requests in order, with how many there are, and their bytes."""

    __slots__ = ("_size", "expecting", "requests")

    def __init__(self) -> None:
        #: The requests, each with its token.
        self.requests: Sequence[Received] = ()
        self._size = 0
        #: The number of requests that expect an answer.
        self.expecting = 0

    @property
    def kept_bytes(self) -> int:
        """About the bytes of the requests: those of several that came together count until the last one is taken."""
        if not self.requests:
            self._size = 0
        return self._size

    def add(self, requests: Sequence[Received], expecting: int, size: int) -> None:
        """Put requests at the end: ``expecting`` of them expect an answer, and they came in ``size`` bytes."""
        self.requests = [*self.requests, *requests] if self.requests else requests
        self.expecting += expecting
        self._size += size

    def take(self, room: int) -> Sequence[Received]:
        """Take requests out from the beginning: no more than ``room`` that expect an answer, nor than TURN_REQUESTS."""
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
        """Put requests that were taken out, and have to wait, at the beginning again."""
        self.expecting += _expecting(requests)
        self.requests = [*requests, *self.requests]

    def clear(self) -> None:
        """Drop the requests. Those that expect an answer are counted on: the conversation waits for it as well."""
        self.requests = ()


def _expecting(requests: Sequence[Received]) -> int:
    return sum([token is not None for _, token in requests])
