"""Records of a membership: its phase, its timing and its counts."""

from __future__ import annotations

import enum

from attrs import evolve, frozen


class Phase(enum.Enum):
    """The phases of a membership."""

    #: Not joined yet.
    IDLE = "idle"
    #: Waiting for a session, for the end of a conflict, or for the tree to answer again.
    WAITING = "waiting"
    #: In a rebalance.
    REBALANCING = "rebalancing"
    #: Has its share and delivers it.
    STEADY = "steady"
    #: Left, or leaving.
    LEFT = "left"


#: The phases that may follow each. Several reasons to wait may follow one another.
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

    #: Time for which watch firings are gathered before a rebalance begins.
    settle: float = 0.05
    #: The first wait after a conflict or an error; doubled each time, with jitter, up to the longest.
    first_wait: float = 0.1
    longest_wait: float = 2.0
    #: Between commits; 0: commit only at a rebalance, at the end and on demand.
    commit_interval: float = 5.0
    #: The longest time that leaving may take.
    leave: float = 5.0


@frozen
class Counts:
    """Counts of the events in a membership so far."""

    rebalances: int = 0
    conflicts: int = 0
    errors: int = 0
    commits: int = 0
    #: Partitions that turned out to belong to others at a commit.
    fenced: int = 0
    #: Stops because nothing was heard for too long.
    silences: int = 0


class EventCounter:
    """Counts the events of one membership."""

    def __init__(self) -> None:
        self.counts = Counts()

    def add(self, **more: int) -> None:
        """Add to the counts of these names."""
        counts = self.counts
        self.counts = evolve(counts, **{name: getattr(counts, name) + n for name, n in more.items()})
