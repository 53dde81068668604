"""Planned moves of leaders: back to the preferred ones, and away from brokers that are draining.

The controller names the successor in the partition's state. The leader takes no more messages then, waits until the
successor has all of them, and lets it lead, so that nothing is lost that was acknowledged before all replicas had it. A
leader that has not done so in time is replaced by the controller. Elections and reassignments name successors as well.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from attrs import define, field
from twisted.logger import Logger

from logd.coord.elections import handed_over, named, prefer
from logd.coord.registries.partition_states import KnownState, Place, StateChange
from logd.deferreds.sleeping import sleep
from logd.interfaces import Clock
from logd.leadership import NO_LEADER
from logd.topic import TopicEntry

#: The most leaders that are told to hand over at a time.
MOST_MOVES = 50
#: Seconds that a leader has to hand over, before its successor leads without that.
MOVE_SECONDS = 2.0
#: The most partitions that are looked at in one turn of the reactor: some 20 milliseconds.
LOOKED_AT_ONCE = 2_000

Find = Callable[[Place], "tuple[TopicEntry, KnownState] | None"]


class Handing(NamedTuple):
    """A leadership that is to be handed over, and the time at which that was first seen."""

    epoch: int
    successor: int
    since: float


@define(eq=False)
class LeaderMoves:
    """The moves that one controller plans."""

    _log = Logger()

    _clock: Clock
    #: Seconds for which the preferred leader has to be in sync before it leads again; None: never.
    _balance: float | None
    #: Returns the topic and the state of a partition; None if it has none.
    _find: Find
    #: The partitions that their first replica does not lead. No other one has to move, unless a broker is draining.
    _displaced: set[Place] = field(factory=set, init=False)
    #: When each partition whose preferred leader could lead was first seen so.
    _movable: dict[Place, float] = field(factory=dict, init=False)
    _handing: dict[Place, Handing] = field(factory=dict, init=False)

    def saw(self, place: Place, entry: TopicEntry, known: KnownState) -> None:
        """Take note of a state that is new, or has changed."""
        state = known.state
        is_led = entry.partitions[place[1]][:1] == (state.leader,)
        (self._displaced.discard if is_led else self._displaced.add)(place)
        handing = self._handing.get(place)
        if state.successor == NO_LEADER:
            self._handing.pop(place, None)
        elif handing is None or handing[:2] != (state.leader_epoch, state.successor):
            self._handing[place] = Handing(state.leader_epoch, state.successor, self._clock.seconds())

    async def due(
        self, everything: Callable[[], Iterable[Place]], live: Mapping[int, str], draining: frozenset[int]
    ) -> list[StateChange]:
        """Return the changes that are due: successors that are named now, and those that lead as time is over."""
        now = self._clock.seconds()
        changes = self._overdue(now, live)
        movable: dict[Place, float] = {}
        moves = 0
        for count, place in enumerate(everything() if draining else sorted(self._displaced), 1):
            if not count % LOOKED_AT_ONCE:
                await sleep(self._clock, 0.0)
            if (found := self._find(place)) is None:
                self._displaced.discard(place)
                continue
            entry, known = found
            state = prefer(known.state, entry.partitions[place[1]], live, draining)
            if state is None:
                continue
            since = movable[place] = self._movable.get(place, now)
            must = known.state.leader in draining
            waited = self._balance is not None and now - since >= self._balance
            if (must or waited) and moves < MOST_MOVES and known.state.successor == NO_LEADER:
                moves += 1
                changes.append(StateChange(place, known, named(known.state, state.leader)))
        self._movable = movable
        return changes

    def _overdue(self, now: float, live: Mapping[int, str]) -> list[StateChange]:
        changes = []
        for place, handing in tuple(self._handing.items()):
            found = self._find(place)
            if found is None or found[1].state.successor == NO_LEADER:
                del self._handing[place]
                continue
            known = found[1]
            state, successor = known.state, known.state.successor
            if not state.live_among({successor}.intersection(state.in_sync), live):
                changes.append(StateChange(place, known, named(state, NO_LEADER)))
            elif now - handing.since >= MOVE_SECONDS:
                self._log.info(
                    "broker {leader} has not handed {topic}-{partition} over in {seconds:g} s: "
                    "broker {successor} is to lead without what it may lack of messages with acks other than -1",
                    leader=state.leader,
                    topic=place[0],
                    partition=place[1],
                    seconds=MOVE_SECONDS,
                    successor=successor,
                )
                changes.append(StateChange(place, known, handed_over(state, successor)))
        return changes
