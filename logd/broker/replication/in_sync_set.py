"""The in-sync set of a partition: the rule by which replicas stay in it, leave and join, and the log lines about it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping
from typing import NamedTuple

from attrs import define, field
from twisted.logger import Logger, LogLevel

from logd.broker.replication.followers import FollowerProgress, Followers
from logd.coord.elections import with_in_sync
from logd.coord.partition_state import PartitionState
from logd.interfaces import Clock, Timer
from logd.log.partition import PartitionLog

#: Seconds from the begin of a leadership until a follower that is not registered in the tree is taken for dead.
GONE_SECONDS = 0.25
#: Seconds for which a follower may be behind that is not registered in the tree, and whose connection is not lost: its
#: machine may have lost its power, or just its way to the tree.
SILENT_SECONDS = 2.0
#: Seconds from the word of a follower that it follows no more until it is not waited for. Its log may be offline; or it
#: begins again in a moment.
LEFT_SECONDS = 0.5
#: Seconds for which one that the controller has left out does not join again. It may be given up by a reassignment, and
#: the leader learn the new replicas somewhat later than the new state.
LEFT_OUT_SECONDS = 1.0
#: Seconds for which changes are gathered. All partitions that a broker has followed lose it at nearly the same time.
GATHERED_SECONDS = 1.0
#: With more changes than these there is one line for all of them: a broker may follow thousands of partitions.
MOST_LINES = 20


class InSyncChange(NamedTuple):
    """A broker that has left the in-sync set of a partition, or has joined it."""

    topic: str
    partition: int
    broker: int
    #: The reason why the broker has left; empty if it has joined.
    reason: str
    #: The set after the change, the number of brokers that are to store the partition, and min.insync.replicas.
    in_sync: tuple[int, ...]
    replicas: int
    least: int

    @property
    def is_below_minimum(self) -> bool:
        """True if too few replicas are in sync for messages with acks -1."""
        return len(self.in_sync) < self.least


@define(eq=False)
class InSyncSet:
    """The in-sync set as one leadership would have it, and its followers. See LeaderRole, which writes the set."""

    _log = Logger()

    _me: int
    _clock: Clock
    #: Returns the instance of each live broker.
    _live: Callable[[], Mapping[int, str]]
    #: Seconds after which a follower that has not caught up is not in sync any more.
    _lag: float
    #: Called with each change of the set, for the log.
    _on_change: Callable[[InSyncChange], None]
    followers: Followers = field(init=False)
    _began: float = field(init=False)
    #: When each broker was left out by the controller.
    _left_out: dict[int, float] = field(factory=dict, init=False)

    def __attrs_post_init__(self) -> None:
        self._began = self._clock.seconds()
        self.followers = Followers(lambda text: self._log.error("a bug in an acknowledgement: {text}", text=text))

    def begin(self) -> None:
        """Note that followers can follow from now on: nobody was behind before."""
        self._began = self._clock.seconds()

    def is_replaced(self, broker: int, instance: str) -> bool:
        """Return whether a broker is registered with another data directory."""
        return self._live().get(broker, instance) != instance

    def staying(self, state: PartitionState, end: int) -> list[int]:
        """Return the members that have not fallen behind; ``end`` is that of the leader's log."""
        return [member for member in state.in_sync if member == self._me or not self._is_behind(member, end)]

    def joining(self, state: PartitionState, replicas: Collection[int], least: int, end: int) -> list[int]:
        """Return the followers that have flushed up to ``least``, would stay, and are no members yet.

        ``end`` is that of the leader's log. While the leader flushes nothing itself, a follower that has fallen behind
        has flushed up to ``least`` all the same: it would leave and join again without a pause.
        """
        latest = self._clock.seconds() - LEFT_OUT_SECONDS
        return [
            broker
            for broker, follower in self.followers.items()
            if broker not in state.in_sync
            and may_join(follower, least)
            and broker in replicas
            and self._left_out.get(broker, latest) <= latest
            and self._live().get(broker) == follower.instance
            and not self._is_behind(broker, end)
        ]

    def is_settled(self, state: PartitionState, end: int) -> bool:
        """Return whether all members have everything, and no other replica follows."""
        return all(broker == self._me or self.has_everything(broker, end) for broker in state.in_sync) and not any(
            follower.sessions and broker not in state.in_sync for broker, follower in self.followers.items()
        )

    def has_everything(self, broker: int, end: int) -> bool:
        """Return whether a follower has the whole log; one that has not come since this leadership began has not."""
        follower = self.followers.get(broker)
        return follower is not None and follower.has_everything(end)

    def changed(self, state: PartitionState, wanted: Collection[int], least: int) -> PartitionState:
        """Return the state with the members ``wanted``; ``least`` is min.insync.replicas.

        Who is a member already stays one with its former data directory alone. It may follow with another one by now,
        which has next to nothing, before the controller has left it out.
        """
        followers = self.followers.items()
        joining = {broker: follower.instance for broker, follower in followers if broker not in state.in_sync}
        return with_in_sync(state, wanted, joining, least)

    def note_left_out(self, former: PartitionState, state: PartitionState) -> None:
        """Note who has left the set by a change that the leader has not asked for."""
        self._left_out.update(dict.fromkeys({*former.in_sync} - {*state.in_sync}, self._clock.seconds()))

    def note_change(
        self, log: PartitionLog, replicas: Collection[int], former: PartitionState, state: PartitionState, asked: bool
    ) -> None:
        """Have it logged who has left or joined the set; ``replicas`` are to store the partition.

        ``asked``: the leader has asked for the change. Any other is the controller's.
        """
        for broker in sorted({*former.in_sync} ^ {*state.in_sync}):
            reason = "" if broker in state.in_sync else self._why_left(broker, replicas, former, asked)
            number, least = len(replicas), log.settings.min_insync_replicas
            in_sync = tuple(sorted(state.in_sync))
            self._on_change(InSyncChange(log.topic, log.partition, broker, reason, in_sync, number, least))

    def _why_left(self, broker: int, replicas: Collection[int], former: PartitionState, asked: bool) -> str:
        instance = self._live().get(broker)
        replaced = instance is not None and instance != former.instances.get(broker)
        if broker not in replicas or not (asked or replaced):
            return "it stores the partition no more"  # a leader may not know the new replicas yet
        if instance is None:
            return "it is not live"
        if replaced:
            return "it has another data directory"
        follower = self.followers.get(broker)
        if follower is not None and follower.left is not None:
            return "it follows no more"
        gone = "" if follower is not None and follower.sessions else ", and is not connected"
        return f"it has not caught up for {self._lag:g} s{gone}"

    def _is_behind(self, broker: int, end: int) -> bool:
        now = self._clock.seconds()
        follower = self.followers.get(broker)
        if follower is None:
            return now - self._began > (self._lag if broker in self._live() else GONE_SECONDS)
        if follower.left is not None:
            return now - follower.left > LEFT_SECONDS
        is_live = broker in self._live()
        if follower.session is None and not is_live:
            return now - self._began > GONE_SECONDS  # its session with the tree has ended, so it is not just slow
        if follower.has_everything(end):
            follower.caught_up = now
        lag = self._lag if is_live else min(self._lag, SILENT_SECONDS)
        return now - max(follower.caught_up, self._began) > lag


def may_join(follower: FollowerProgress, least: int) -> bool:
    """Return whether a follower that follows now has flushed enough to join."""
    return follower.session is not None and follower.flushed >= least


@define(eq=False)
class InSyncLog:
    """The lines about changed in-sync sets. Below min.insync.replicas they are warnings."""

    _log = Logger()

    _clock: Clock
    #: By topic, partition and broker, so that one that comes and goes has two lines at most.
    _changes: dict[tuple[str, int, int], list[InSyncChange]] = field(factory=dict, init=False)
    _timer: Timer | None = field(default=None, init=False)

    def note(self, change: InSyncChange) -> None:
        """Log a change, together with those of the next moment."""
        changes = self._changes.setdefault((change.topic, change.partition, change.broker), [])
        changes.append(change)
        if len(changes) > 2:
            # The same as the first. A leader that knows the new replicas late takes one back that was just left out.
            del changes[:2]
        if self._timer is None:
            self._timer = self._clock.callLater(GATHERED_SECONDS, self._write)

    def stop(self) -> None:
        """Log at once what was gathered."""
        if self._timer is not None:
            self._timer.cancel()
            self._write()

    def _write(self) -> None:
        self._timer = None
        changes = [change for each in self._changes.values() for change in each]
        self._changes.clear()
        if len(changes) > MOST_LINES:
            self._write_one_for_all(changes)
            return
        for each in changes:
            text = (
                "{topic}-{partition}: broker {broker} {has} the in-sync replicas, which are now {in_sync} (of {number})"
            )
            if each.reason:
                text += ": {reason}"
            if each.is_below_minimum:
                text += "; min.insync.replicas = {least}, so messages with acks -1 are refused"
            self._log.emit(
                LogLevel.warn if each.is_below_minimum else LogLevel.info,
                text,
                topic=each.topic,
                partition=each.partition,
                broker=each.broker,
                has="left" if each.reason else "joined",
                in_sync=", ".join(map(str, each.in_sync)),
                number=each.replicas,
                reason=each.reason,
                least=each.least,
            )

    def _write_one_for_all(self, changes: list[InSyncChange]) -> None:
        last = {(each.topic, each.partition): each for each in changes}
        below = sum(each.is_below_minimum for each in last.values())
        text = "the in-sync replicas of {count} partitions have changed: {changes}"
        if below:
            text += "; {below} of the partitions are below min.insync.replicas, and refuse messages with acks -1"
        counts = sorted(Counter((each.broker, "left" if each.reason else "joined") for each in changes).items())
        told = ", ".join(f"broker {broker} {has} those of {count}" for (broker, has), count in counts)
        self._log.emit(LogLevel.warn if below else LogLevel.info, text, count=len(last), changes=told, below=below)
