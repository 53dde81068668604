"""Counts the cost of one rebalance to the coordination tree in a simulation: requests, and watches that fire.

A tree, its clients and the members of a group run in this process on a simulated clock. Network delay is simulated
too (``DELAY`` each way); processor time is not.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping

from attrs import asdict, define, field, frozen
from twisted.internet.defer import Deferred
from zope.interface import implementer

from logd.coord import paths
from logd.coord.groups.interfaces import IGroupReader
from logd.coord.groups.membership import GroupMembership
from logd.coord.groups.records import Timing
from logd.coord.records import Children, Multi, Request
from logd.coord.registries.consumers import Subscription
from logd.coord.registries.topics import encode_entry
from logd.coord.tree.attachment import Attachment
from logd.coord.tree.no_journal import NoJournal
from logd.coord.tree.outcome import Outcome
from logd.coord.tree.tree import Tree
from logd.coord.tree.tree_host import TreeHost
from logd.errors import LogdError
from logd.testing.inprocess.client import InProcessCoordination
from logd.testing.memory.event_clock import EventClock
from logd.topic import TopicEntry, TopicPartition

#: Seconds that a message takes between a client and the tree.
DELAY = 0.0005
#: Simulated seconds in which a group has to settle, and for which it is watched afterwards.
PATIENCE = 300.0
AFTERWARDS = 3.0
TOPIC = "t"


@frozen
class RebalanceCost:
    """The cost of one change of a group. Seconds are simulated, from the change until the group has settled."""

    change: str
    #: In the group, after the change.
    consumers: int
    partitions: int
    seconds: float
    #: Requests of all clients; a transaction is one.
    requests: int
    #: The requests by kind, and the operations inside transactions.
    kinds: Mapping[str, int]
    watches_fired: int
    #: Names in all lists of children that were read.
    names: int
    #: Over all members: rebalances, and claims of a partition that another member still owned.
    rebalances: int
    conflicts: int

    def to_json(self) -> dict[str, object]:
        """Return every field by its name."""
        return asdict(self)


class CountingHost(TreeHost):
    """A tree's host that counts the requests, and the watches that fire."""

    def __init__(self, clock: EventClock) -> None:
        super().__init__(Tree(), NoJournal(), clock, lambda count: b"p" * count)
        self.kinds: Counter[str] = Counter()
        self.requests = self.watches_fired = self.names = 0

    def execute(self, attachment: Attachment, request: Request, answered: Callable[[Outcome], None]) -> None:
        """Count the request."""
        self.requests += 1
        self.kinds[type(request).__name__] += 1
        if isinstance(request, Multi):
            self.kinds.update(f"{type(each).__name__} in Multi" for each in request.operations)

        def count(outcome: Outcome) -> None:
            self.watches_fired += len(outcome.notifications)
            if isinstance(outcome.answer, Children):
                self.names += len(outcome.answer.names)
            answered(outcome)

        super().execute(attachment, request, count)


@implementer(IGroupReader)
@define(eq=False)
class _Reader:
    """Reads nothing, and reports its number of partitions."""

    changed: Callable[[int, int], None]
    count: int = 0

    def stop(self) -> Deferred[None] | None:
        """See IGroupReader."""
        self._set(0)
        return None

    def handled(self) -> Mapping[TopicPartition, int]:
        """See IGroupReader: nothing is handled here, so nothing is committed."""
        return {}

    def start(
        self,
        streams: Mapping[TopicPartition, str],
        positions: Mapping[TopicPartition, int | None],
        uuids: Mapping[str, str],
    ) -> None:
        """See IGroupReader."""
        self._set(len(streams))

    def refused(self, error: LogdError) -> None:
        """See IGroupReader."""

    def lost(self, where: TopicPartition) -> None:
        """See IGroupReader."""
        self._set(self.count - 1)

    def _set(self, count: int) -> None:
        self.changed(self.count, count)
        self.count = count


@define
class _RebalancedGroup:
    """A simulated group."""

    partitions: int
    clock: EventClock = field(factory=EventClock)
    members: list[GroupMembership] = field(factory=list)
    clients: list[InProcessCoordination] = field(factory=list)
    #: The number of members by their number of partitions.
    having: Counter[int] = field(factory=Counter)
    host: CountingHost = field(init=False)

    def __attrs_post_init__(self) -> None:
        self.host = CountingHost(self.clock)
        self.host.start()
        eye = InProcessCoordination(self.host, self.clock)
        eye.connect()
        entry = TopicEntry("u", dict.fromkeys(range(self.partitions), (0,)))
        eye.create(paths.broker(0), b"{}", ephemeral=True, makepath=True)
        eye.create(paths.topic(TOPIC), encode_entry(entry), makepath=True)
        self._until(lambda: paths.topic(TOPIC) in self.host.tree.nodes)

    def join(self) -> None:
        """Add one member."""
        client = InProcessCoordination(self.host, self.clock, 40.0, delay=lambda: DELAY)
        name = f"consumer-{len(self.members):05d}"
        membership = GroupMembership(
            client, self.clock, "g", name, _Reader(self._changed), lambda: 0.5, Timing(commit_interval=0.0)
        )
        client.connect()
        membership.subscribe(Subscription({TOPIC: 1}))
        self.members.append(membership)
        self.clients.append(client)
        self.having[0] += 1

    def leave(self) -> None:
        """Remove the member in the middle."""
        middle = len(self.members) // 2
        membership = self.members.pop(middle)
        client = self.clients.pop(middle)
        membership.leave().addCallback(lambda _: client.close()).addCallback(lambda _: self._gone())

    def settle(self) -> float:
        """Advance the clock until the partitions are shared evenly; return the simulated seconds."""
        start = self.clock.seconds()
        self._until(self._even)
        return self.clock.seconds() - start

    def run_for(self, seconds: float) -> None:
        """Advance the clock."""
        end = self.clock.seconds() + seconds
        self._until(lambda: self.clock.seconds() >= end)

    def _gone(self) -> None:
        self.having[0] -= 1

    def _changed(self, before: int, now: int) -> None:
        self.having[before] -= 1
        self.having[now] += 1

    def _even(self) -> bool:
        each, more = divmod(self.partitions, len(self.members))
        return self.having[each + 1] == more and self.having[each] == len(self.members) - more

    def _until(self, true: Callable[[], bool]) -> None:
        end = self.clock.seconds() + PATIENCE
        while not true():
            if self.clock.seconds() > end or not self.clock.step():
                raise LogdError(f"a group of {len(self.members)} did not settle within {PATIENCE:g} simulated seconds")


def rebalance_costs(consumers: int, partitions: int) -> list[RebalanceCost]:
    """Return the costs of a join and of a leave in a group of ``consumers``. Uses only processor time."""
    group = _RebalancedGroup(partitions)
    for _ in range(consumers):
        group.join()
    group.settle()
    group.run_for(AFTERWARDS)
    return [_cost(group, "join", group.join), _cost(group, "leave", group.leave)]


def _cost(group: _RebalancedGroup, name: str, change: Callable[[], None]) -> RebalanceCost:
    members, host = list(group.members), group.host
    before = sum(each.counts.rebalances for each in members), sum(each.counts.conflicts for each in members)
    host.kinds.clear()
    host.requests = host.watches_fired = host.names = 0
    change()
    seconds = group.settle()
    group.run_for(AFTERWARDS)
    members += [each for each in group.members if each not in members]
    after = sum(each.counts.rebalances for each in members), sum(each.counts.conflicts for each in members)
    return RebalanceCost(
        name,
        len(group.members),
        group.partitions,
        round(seconds, 3),
        host.requests,
        dict(host.kinds.most_common()),
        host.watches_fired,
        host.names,
        after[0] - before[0],
        after[1] - before[1],
    )
