"""The words of a membership: what it is doing, how it takes its time, what it has gone through."""

from __future__ import annotations

import enum

from attrs import frozen


class Phase(enum.Enum):
    """The phases of a membership."""

    #: Not joined yet.
    IDLE = "idle"
    #: Waits: for a session, for a conflict to end, for the tree to answer again.
    WAITING = "waiting"
    #: On the way through a rebalance.
    REBALANCING = "rebalancing"
    #: Has its share, which is delivered.
    STEADY = "steady"
    #: Gone, or going.
    LEFT = "left"


#: The phases that may follow each. Several reasons to wait may come one after the other.
FOLLOWING = {
    Phase.IDLE: {Phase.WAITING, Phase.LEFT},
    Phase.WAITING: {Phase.WAITING, Phase.REBALANCING, Phase.STEADY, Phase.LEFT},
    Phase.REBALANCING: {Phase.WAITING, Phase.STEADY, Phase.LEFT},
    Phase.STEADY: {Phase.WAITING, Phase.REBALANCING, Phase.STEADY, Phase.LEFT},
    Phase.LEFT: set[Phase](),
}


@frozen(kw_only=True)
class Timing:
    """The durations of a membership, in seconds."""

    #: How long firings are gathered before a rebalance begins.
    settle: float = 0.05
    #: The first wait after a conflict or an error; doubled each time, with jitter, up to the longest.
    first_wait: float = 0.1
    longest_wait: float = 2.0
    #: Between commits; 0: none but at a rebalance, at the end and on demand.
    commit_interval: float = 5.0
    #: How long leaving may take.
    leave: float = 5.0


@frozen
class Counts:
    """Counts of the events in a membership so far."""

    rebalances: int = 0
    conflicts: int = 0
    errors: int = 0
    commits: int = 0
    #: Partitions that turned out to be another's at a commit.
    fenced: int = 0
    #: How often it stopped since it had heard nothing for too long.
    silences: int = 0
