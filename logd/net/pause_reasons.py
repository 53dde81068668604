"""The reasons to pause a connection: its requests are not taken for a while."""

from __future__ import annotations

from enum import Enum


class PauseReason(Enum):
    """A reason to pause a connection. There may be several at a time; the connection resumes when the last one ends."""

    #: The broker is starting: the topics to serve are not known yet.
    START = "start"
    #: Other connections have their turn before the rest of the backlog is taken.
    TURN = "turn"
    #: A topic of a request is being created.
    TOPIC = "topic"
    #: A large message set is being checked.
    CHECK = "check"
    #: The first batch waits for the format of the data directory.
    FORMAT = "format"
    #: What the idempotent producers of a partition have sent is being read.
    PRODUCERS = "producers"
    #: A log of a request may not grow yet.
    GROWTH = "growth"
    #: The broker has too many unflushed bytes.
    FLUSH = "flush"
    #: The user has sent more bytes than its quota allows.
    QUOTA_IN = "quota in"
    #: The user has been sent more bytes than its quota allows.
    QUOTA_OUT = "quota out"
    #: As many requests as a quota allows are under way.
    REQUESTS = "requests"
    #: The client's password is being checked, or a wrong one is being answered.
    AUTHENTICATION = "authentication"
