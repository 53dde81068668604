"""The reasons why a connection is not read for a while."""

from __future__ import annotations

from enum import Enum


class Hold(Enum):
    """A connection may be held for several of these at a time; it goes on when the last one ends."""

    #: The broker starts: it is not decided yet what it serves.
    START = "start"
    #: Other connections have their turn before the rest of many requests is taken.
    TURN = "turn"
    #: A topic that a request names is being made.
    TOPIC = "topic"
    #: A large message set is being checked.
    CHECK = "check"
    #: A log that a request appends to may not grow yet.
    GROWTH = "growth"
    #: Too many bytes of the whole broker wait for the disk.
    FLUSH = "flush"
