"""The rules by which leaders are chosen and in-sync sets change: functions of records, without I/O.

``least`` is min.insync.replicas, ``live`` has the instance of each live broker's data directory.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from attrs import evolve

from logd.coord.partition_state import PartitionState
from logd.leadership import NO_LEADER

#: The latest epoch in which a partition is lost with the tree, whatever the clock says: there are as many behind it.
_LATEST_BEGINNING = 1 << 30


def initial_state(replicas: Sequence[int], live: Mapping[int, str], controller_epoch: int = 0) -> PartitionState | None:
    """Return the state of a new partition: all live replicas are in sync. None if none of them is live."""
    in_sync = tuple(broker for broker in replicas if broker in live)
    if not in_sync:
        return None
    return PartitionState(in_sync[0], 0, in_sync, (), {broker: live[broker] for broker in in_sync}, controller_epoch)


def with_in_sync(
    state: PartitionState, wanted: Collection[int], instances: Mapping[int, str], least: int
) -> PartitionState:
    """Return the state with another in-sync set. ``instances`` has those of its new members.

    A replica that leaves a set that is then below ``least`` is remembered: nothing becomes visible that it lacks.
    """
    in_sync = tuple(sorted(wanted))
    last: tuple[int, ...] = ()
    if len(in_sync) < least:
        last = tuple(sorted({*state.in_sync, *state.last} - {*in_sync}))
    known = {**state.instances, **{broker: instances[broker] for broker in in_sync if broker in instances}}
    return _with_members(state, in_sync, last, known)


def elect(
    state: PartitionState, replicas: Sequence[int], live: Mapping[int, str], least: int, draining: Collection[int] = ()
) -> PartitionState | None:
    """Return the state after brokers have come or gone, None if it need not change.

    The leader stays while it is live. Else the first in-sync replica that is live leads, in the order of ``replicas``;
    else the first of those that were in sync last. Else nobody leads until one of them is back.

    A replica that is not live stays in sync until the leader takes it out: a leader that has died meanwhile cannot, so
    what it would have been the only one to have is not lost sight of. One with another data directory goes at once.

    The last members stay last members, whatever ``least`` is: it is for the leader to forget them, once it leads.
    """

    def is_live(broker: int) -> bool:
        return live.get(broker) == state.instances.get(broker)

    def is_replaced(broker: int) -> bool:
        return broker not in replicas or (broker in live and not is_live(broker))

    staying = tuple(broker for broker in state.in_sync if not is_replaced(broker))
    if state.leader in staying and is_live(state.leader):
        return None if staying == state.in_sync else _left_with(state, staying, least, replicas)
    candidates = [broker for broker in staying if is_live(broker)]
    candidates.sort(key=lambda broker: (broker in draining, _place(replicas, broker)))
    if candidates:
        return _led_by(_left_with(state, staying, least, replicas), candidates[0])
    remembered = [broker for broker in replicas if broker in state.last and is_live(broker)]
    if remembered:
        leader = remembered[0]
        last = tuple(sorted({*state.in_sync, *state.last} - {leader}))
        return _led_by(evolve(state, in_sync=(leader,), last=last), leader)
    return None if state.leader == NO_LEADER else _led_by(state, NO_LEADER)


def prefer(
    state: PartitionState, replicas: Sequence[int], live: Mapping[int, str], draining: Collection[int] = ()
) -> PartitionState | None:
    """Return the state in which the preferred leader leads; None if it leads already, or cannot lead.

    That is the first replica, or the first one that is not draining. A leader that is draining makes way for any
    in-sync replica that is not.
    """
    if state.leader == NO_LEADER:
        return None
    wanted = [broker for broker in replicas if broker not in draining]
    if state.leader not in draining:
        wanted = wanted[:1]
    for broker in wanted:
        if broker in state.in_sync and live.get(broker) == state.instances.get(broker):
            return None if broker == state.leader else _led_by(state, broker)
    return None


def named(state: PartitionState, successor: int) -> PartitionState:
    """Return the state in which the leader is to hand over to ``successor``; NO_LEADER: to nobody."""
    return evolve(state, successor=successor)


def elect_unclean(
    state: PartitionState, replicas: Sequence[int], live: Mapping[int, str], wanted: int = NO_LEADER
) -> PartitionState | None:
    """Return the state in which any live replica leads, though it may lack messages; None if one leads, or none lives.

    Only a person may ask for this. ``wanted`` leads, if it is a live replica, else the first one that is.
    """
    candidates = [broker for broker in replicas if broker in live]
    leader = wanted if wanted in candidates else next(iter(candidates), None)
    if state.leader != NO_LEADER or leader is None:
        return None
    led = _led_by(evolve(state, in_sync=(leader,), last=(), instances={leader: live[leader]}), leader)
    return evolve(led, unclean_epoch=led.leader_epoch)


def without_leader(state: PartitionState, successors: Collection[int], remembered: bool) -> PartitionState:
    """Return the state in which the leader has given up, and nobody leads yet.

    One of ``successors`` is to lead, which are other in-sync replicas or last members: the in-sync ones, if there are
    any among them. If the leader is ``remembered``, it may lead again should they have died meanwhile: it becomes a
    last member, which has everything visible, until one of them leads and forgets it.
    """
    return _led_by(_given_up(state, successors, remembered), NO_LEADER)


def given_way(state: PartitionState, successor: int) -> PartitionState:
    """Return the state in which the leader, which finds no room for messages, has given up, and ``successor`` leads.

    That is another in-sync replica, or a last member. The former leader is remembered, as by ``without_leader``.
    """
    return _led_by(_given_up(state, [successor], True), successor)


def renounced(state: PartitionState, broker: int) -> PartitionState | None:
    """Return the state in which a last member, which cannot go on with its log, counts no more.

    None if it is none, or nobody leads: then it may be the only one that has everything visible.
    """
    if state.leader == NO_LEADER or broker in state.in_sync or broker not in state.last:
        return None
    return _without(state, [broker])


def handed_over(state: PartitionState, successor: int, least_epoch: int = 0) -> PartitionState:
    """Return the state in which ``successor``, an in-sync replica, leads in a new epoch, at least ``least_epoch``.

    ``least_epoch`` is the one behind the last that the leader's log has, where it cannot begin in that of the state.

    A lost tree knows no epochs: the first leader after it was elected uncleanly, and finds in its log that it has to
    begin in a later one. That is the epoch of the unclean election then: other replicas may have entries of the former
    one as well, from before the tree was lost. (The log of a leader that has restarted has its own entries of that
    epoch. Nothing is given up then: it had flushed what was shown in that epoch.)
    """
    epoch, unclean_epoch = max(state.leader_epoch + 1, least_epoch), state.unclean_epoch
    if least_epoch > state.leader_epoch and 0 < unclean_epoch == state.leader_epoch:
        unclean_epoch = epoch
    return evolve(state, leader=successor, leader_epoch=epoch, unclean_epoch=unclean_epoch, successor=NO_LEADER)


def reassigned(
    state: PartitionState, replicas: Sequence[int], wanted: Sequence[int], live: Mapping[int, str]
) -> tuple[tuple[int, ...], PartitionState] | None:
    """Return the replicas and the state after the next step towards the ``wanted`` replicas; None: it has to wait.

    First the new replicas are added, behind the others. Once all wanted ones are in sync, the others are left out, and
    the first wanted one leads if the leader is one of those. Both are to be written in one transaction with the topic's
    entry: a broker that stores the partition no more deletes its log, so the state may not name it from then on.
    """
    added = [broker for broker in wanted if broker not in replicas]
    if added:
        if state.leader in added:
            return None  # its leader was taken out of the entry by hand; the controller finds another one first
        return (*replicas, *added), _without(state, added)
    if state.last or not all(
        broker in state.in_sync and live.get(broker) == state.instances.get(broker) for broker in wanted
    ):
        return None
    if state.leader == NO_LEADER:
        return None
    if state.leader not in wanted:
        state = _led_by(state, wanted[0])
    return tuple(wanted), _without(state, [broker for broker in state.in_sync if broker not in wanted])


def lost_with_the_tree(now: float) -> PartitionState:
    """Return the state of a partition that is known by its logs alone: only an unclean election finds a leader.

    Nobody knows its epochs: those that are live by then may have earlier ones than a replica that is away. Under one
    number two leaders would have different bytes, and the difference never be found. So the epochs go on behind the
    number of minutes since 1970; ``now`` is the time of day in seconds. A leader does not change each minute for long,
    so that is also later than all that have followed a former loss. Should the clock have been wrong, the elected
    leader still begins behind the epochs of its own log.
    """
    return PartitionState(NO_LEADER, min(max(int(now // 60), 0), _LATEST_BEGINNING), ())


def _left_with(state: PartitionState, staying: Sequence[int], least: int, replicas: Sequence[int]) -> PartitionState:
    """Return the state whose in-sync replicas are ``staying``, without last members that store it no more."""
    left = with_in_sync(state, staying, {}, least)
    last = tuple(sorted(broker for broker in {*left.last, *state.last} if broker in replicas))
    return _with_members(left, left.in_sync, last, state.instances)


def _given_up(state: PartitionState, successors: Collection[int], remembered: bool) -> PartitionState:
    """Return the state whose leader has left the set: see ``without_leader``."""
    others = tuple(broker for broker in state.in_sync if broker != state.leader)
    in_sync = others if any(broker in others for broker in successors) else tuple(successors)[:1]
    last = {*others, *state.last} - {*in_sync} | ({state.leader} if remembered else set())
    return _with_members(state, in_sync, tuple(sorted(last)), state.instances)


def _without(state: PartitionState, brokers: Collection[int]) -> PartitionState:
    """Return the state that names none of ``brokers``."""
    in_sync = tuple(broker for broker in state.in_sync if broker not in brokers)
    last = tuple(broker for broker in state.last if broker not in brokers)
    return _with_members(state, in_sync, last, state.instances)


def _with_members(
    state: PartitionState, in_sync: tuple[int, ...], last: tuple[int, ...], instances: Mapping[int, str]
) -> PartitionState:
    """Return the state with these two lists. A successor that is not in sync is none any more."""
    kept = {broker: instances[broker] for broker in (*in_sync, *last)}
    successor = state.successor if state.successor in in_sync else NO_LEADER
    return evolve(state, in_sync=in_sync, last=last, instances=kept, successor=successor)


def _led_by(state: PartitionState, leader: int) -> PartitionState:
    return evolve(state, leader=leader, leader_epoch=state.leader_epoch + 1, successor=NO_LEADER)


def _place(replicas: Sequence[int], broker: int) -> int:
    return replicas.index(broker) if broker in replicas else len(replicas)
