"""The rules of replication, switched off one at a time: the simulation has to find each.

``RULES`` is the source of the table in docs/design/replication.md.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any
from unittest import mock

from attrs import evolve, frozen

from logd.broker.idempotence.known_producers import Idempotence
from logd.broker.replication import replica_requests
from logd.broker.replication.control.operator_work import ControllerEpoch
from logd.broker.replication.epoch_cache import EpochCache
from logd.broker.replication.follower import FollowerRole
from logd.broker.replication.healing.healer import Healer
from logd.broker.replication.in_sync_set import InSyncSet
from logd.broker.replication.leader import LeaderRole
from logd.broker.replication.replica import Replica
from logd.broker.replication.replica_manager import ReplicaManager
from logd.broker.replication.replica_requests import ReplicaRequests
from logd.broker.requests import fetch_session
from logd.coord import elections, paths
from logd.coord.partition_state import PartitionState
from logd.coord.records import ANY_VERSION, Check, SetData
from logd.coord.registries.partition_states import KnownState, PartitionStates
from logd.leadership import NO_LEADER, PartitionLeadership
from logd.log.epochs.history import NO_EPOCH, EpochHistory
from logd.log.partition import PartitionLog
from logd.log.producers.states import ProducerStates
from logd.log.store.log_store import LogStore
from logd.protocol.requests.replica_fetch import ReplicaFetch, ReplicaFetchedPart, ReplicaFetchV1, ReplicaProgress
from tests.simulation.mutations.patching import all_of, replaced_everywhere

Draining = Collection[int]


def write_states_at_any_version() -> AbstractContextManager[Any]:
    """Leaders and controllers write states whatever stands in the tree; nobody checks the controller's epoch."""
    init = SetData.__init__

    async def at_any(
        states: PartitionStates, topic: str, number: int, former: KnownState, state: PartitionState
    ) -> Any:
        path = paths.partition_state(topic, number)
        stat = await states._coordination.set(path, state.encode(), ANY_VERSION)
        known = KnownState(state, stat.version, former.uuid)
        states.took(topic, number, known)
        return known

    def of_any_version(operation: SetData, path: str, data: bytes, version: int) -> None:
        init(operation, path, data, ANY_VERSION if path.endswith("/state") else version)

    return all_of(
        mock.patch.object(PartitionStates, "change", at_any),
        mock.patch.object(SetData, "__init__", of_any_version),
        mock.patch.object(ControllerEpoch, "check", lambda epoch: Check(paths.CONTROLLER_EPOCH, ANY_VERSION)),
    )


def truncate_to_the_visible_end() -> AbstractContextManager[Any]:
    """A broker that begins to follow truncates its log to the visible end, as far as it knows that."""
    follow = Replica._follow

    def cutting(replica: Replica, known: KnownState, *more: Any, **others: Any) -> None:
        follow(replica, known, *more, **others)
        role = replica.role
        assert isinstance(role, FollowerRole)
        if role.log.visible_end < role.log.end and not role.is_lost:
            replica._owner.fetcher(role.leader).remove(role)
            role.tasks.truncate(role.log.visible_end)

    return mock.patch.object(Replica, "_follow", cutting)


def keep_what_diverges() -> AbstractContextManager[Any]:
    """A leader does not compare epochs: a follower keeps what it has, and goes on behind it."""
    return mock.patch.object(replica_requests, "_divergence", lambda role, part: None)


def tell_ends_uncompared() -> AbstractContextManager[Any]:
    """A leader tells its visible end before it has said where the follower's log and its own diverge."""
    news = ReplicaRequests._news

    def uncompared(requests: ReplicaRequests, sent: set[tuple[str, int]]) -> list[ReplicaFetchedPart]:
        for followed in requests._shown:
            followed.is_equal = True
        return news(requests, sent)

    return mock.patch.object(ReplicaRequests, "_news", uncompared)


def take_for_an_empty_epoch() -> AbstractContextManager[Any]:
    """An epoch of which no entry came stays: what the next leader has of earlier ones is taken for it, or refused."""
    read = EpochCache.read

    def has_begun(role: FollowerRole, epoch: int) -> bool:
        history, end = role.history, role.log.end
        if epoch == history.before(end) or epoch == NO_EPOCH:
            return True
        if epoch < history.latest:
            return role._refuse(f"the leader sends bytes of epoch {epoch} behind those of a later one")
        if history.latest == epoch and history.starts[-1].start == end:
            return True
        role.tasks.begin_epoch(epoch, end)
        return False

    async def cut(cache: EpochCache, log: PartitionLog, *more: Any) -> EpochHistory:
        cache.history = (await read(cache, log, *more)).cut(log.end)
        return cache.history

    return all_of(
        mock.patch.object(FollowerRole, "_has_begun", has_begun),
        mock.patch.object(EpochHistory, "followed_by", EpochHistory.begun),
        mock.patch.object(EpochCache, "read", cut),
    )


def lead_again_in_the_same_epoch() -> AbstractContextManager[Any]:
    """An epoch of which the log has no entry is forgotten: a leader that is back at once goes on in its epoch."""
    read = EpochCache.read

    async def without(cache: EpochCache, log: PartitionLog, *more: Any) -> EpochHistory:
        cache.history = (await read(cache, log, *more)).cut(log.end)
        cache.highest = cache.history.latest
        return cache.history

    async def lead(replica: Replica, known: KnownState, replicas: tuple[int, ...]) -> None:
        replica._epochs.highest = NO_EPOCH
        await really_lead(replica, known, replicas)

    really_lead = Replica._lead
    return all_of(mock.patch.object(EpochCache, "read", without), mock.patch.object(Replica, "_lead", lead))


def follow_in_any_epoch() -> AbstractContextManager[Any]:
    """Followers and leaders take what the other one says, whatever its leader epoch."""
    take, fetch, progress = FollowerRole.take, ReplicaRequests.fetch, ReplicaRequests.progress

    def any_answer(role: FollowerRole, part: ReplicaFetchedPart, *more: Any) -> bool:
        return take(role, part._replace(leader_epoch=role.epoch), *more)

    def current(requests: ReplicaRequests, parts: Sequence[Any]) -> tuple[Any, ...]:
        led = [requests._manager.leader(part.topic, part.partition) for part in parts]
        return tuple(
            part if role is None else part._replace(leader_epoch=role.epoch)
            for part, role in zip(parts, led, strict=True)
        )

    def any_fetch(requests: ReplicaRequests, request: ReplicaFetch | ReplicaFetchV1) -> Any:
        return fetch(requests, request._replace(parts=current(requests, request.parts)))

    def any_progress(requests: ReplicaRequests, request: ReplicaProgress) -> None:
        progress(requests, request._replace(parts=current(requests, request.parts)))

    return all_of(
        mock.patch.object(FollowerRole, "take", any_answer),
        mock.patch.object(ReplicaRequests, "fetch", any_fetch),
        mock.patch.object(ReplicaRequests, "progress", any_progress),
    )


def read_where_nobody_leads() -> AbstractContextManager[Any]:
    """A fetch session of a consumer reads from whatever broker it is connected to."""
    return all_of(
        mock.patch.object(fetch_session, "replica_refusal", lambda log: None),
        mock.patch.object(PartitionLeadership, "check_fetch", lambda leadership, epoch: None),
    )


def extend_before_the_epoch_is_visible() -> AbstractContextManager[Any]:
    """A new leader takes its visible end for the true one, and adds whoever has that to the in-sync set."""
    return all_of(
        mock.patch.object(LeaderRole, "knows_visible_end", property(lambda role: True)),
        mock.patch.object(LeaderRole, "_joining_end", property(lambda role: role.log.visible_end)),
    )


def count_the_former_set_alone() -> AbstractContextManager[Any]:
    """While a change of the in-sync set is under way, a broker that it adds does not count yet."""
    move = LeaderRole._move_visible_end

    def of_the_former(role: LeaderRole) -> None:
        proposed, role._proposed = role._proposed, None
        move(role)
        role._proposed = proposed

    return mock.patch.object(LeaderRole, "_move_visible_end", of_the_former)


def take_brokers_for_their_disks() -> AbstractContextManager[Any]:
    """A broker is the same one whatever disk it comes with: its data directory has no number of its own."""
    return mock.patch.object(
        LogStore, "instance", property(lambda store: f"00000000-0000-4000-8000-{store.broker_id:012d}")
    )  # fmt: skip


def show_below_the_minimum() -> AbstractContextManager[Any]:
    """The visible end moves on while the in-sync set is below min.insync.replicas."""
    move = LeaderRole._move_visible_end

    def of_any_number(role: LeaderRole) -> None:
        known, settings = role._known, role.log.settings
        role._known = known._replace(state=evolve(known.state, last=()))
        role.log.settings = evolve(settings, min_insync_replicas=1)
        move(role)
        role._known, role.log.settings = known, settings

    return mock.patch.object(LeaderRole, "_move_visible_end", of_any_number)


def elect_anyone() -> AbstractContextManager[Any]:
    """Any live replica leads, unasked, if none of the members that may lead is live."""
    elect = elections.elect

    def anyone(
        state: PartitionState, replicas: Sequence[int], live: Mapping[int, str], least: int, draining: Draining = ()
    ) -> PartitionState | None:
        found = elect(state, replicas, live, least, draining)
        result = state if found is None else found
        if result.leader != NO_LEADER:
            return found
        return elections.elect_unclean(result, replicas, live) or found

    return replaced_everywhere(elect, anyone)


def lead_though_damaged() -> AbstractContextManager[Any]:
    """A leader whose log cannot be served stays the leader."""

    async def stay(replica: Replica, known: KnownState, replicas: tuple[int, ...]) -> None:
        replica._end_role()

    return mock.patch.object(Replica, "_leave_offline", stay)


def leave_damage() -> AbstractContextManager[Any]:
    """Damage on a replica is found, and left as it is."""
    return mock.patch.object(Healer, "heal", lambda healer, log, start: None)


def forget_producers() -> AbstractContextManager[Any]:
    """A new leader knows no idempotent producer: what is sent again is taken for new."""

    async def nothing(known: Idempotence, log: PartitionLog) -> ProducerStates:
        return ProducerStates()

    return mock.patch.object(Idempotence, "_read", nothing)


def stop_without_a_successor() -> AbstractContextManager[Any]:
    """A broker that stops in order leaves its leaderships behind."""

    async def nothing(manager: ReplicaManager, until: float) -> None:
        return None

    return mock.patch.object(ReplicaManager, "hand_over", nothing)


def wait_for_the_slowest() -> AbstractContextManager[Any]:
    """A follower stays in sync however long it is behind."""
    return mock.patch.object(InSyncSet, "_is_behind", lambda members, broker, end: False)


def flushed_soon_unless(role: type[LeaderRole | FollowerRole]) -> AbstractContextManager[Any]:
    """Let logs of one role gather messages although they are to be flushed soon."""
    flush_soon = PartitionLog.flush_soon

    def flush(log: PartitionLog) -> None:
        if not isinstance(log.replica, role):
            flush_soon(log)

    return mock.patch.object(PartitionLog, "flush_soon", flush)


def gather_on_followers() -> AbstractContextManager[Any]:
    """A follower gathers messages for flush.messages and flush.ms, as its leader does."""
    return flushed_soon_unless(FollowerRole)


@frozen
class Rule:
    """A rule switched off: its number in the design, and the seed that finds that."""

    number: int
    mutation: Callable[[], AbstractContextManager[Any]]
    #: The first seed that found it in such lives, and what that broke: an invariant, or what one fault alone may cost.
    seed: int
    invariant: str
    #: The kinds of faults, and the fault at the beginning, of lives that find it soon, whatever else is changed.
    kinds: tuple[str, ...]
    calm: str = "nothing"


#: All mutations that the simulation finds, in the order of the rules.
RULES: tuple[Rule, ...] = (
    Rule(
        1,
        write_states_at_any_version,
        1,
        "I6",
        ("pause the leader", "leader without the tree", "late leader", "expire", "reassign"),
    ),
    Rule(2, truncate_to_the_visible_end, 1, "I2", ("kill", "kill the leader")),
    Rule(
        2,
        keep_what_diverges,
        0,
        "I3",
        ("kill the leader", "isolate the leader", "leader without the tree", "two failovers"),
    ),
    Rule(
        2,
        tell_ends_uncompared,
        12,
        "I3",
        ("kill the leader", "isolate the leader", "leader without the tree", "two failovers"),
    ),
    Rule(2, take_for_an_empty_epoch, 1, "I9", ("kill the successor in a change",)),
    Rule(3, lead_again_in_the_same_epoch, 0, "I9", ("kill the leader", "power of all")),
    Rule(4, extend_before_the_epoch_is_visible, 0, "I2", ("replica left behind",)),
    Rule(5, count_the_former_set_alone, 13, "I4", ("late leader", "replica left behind", "slow disk")),
    Rule(6, take_brokers_for_their_disks, 3, "liveness", ("new disk", "kill")),
    Rule(7, show_below_the_minimum, 2, "I2", ("replica left behind", "kill two", "kill all but one")),
    Rule(7, elect_anyone, 1, "I8", ("unclean election",)),
    Rule(8, lead_though_damaged, 0, "liveness", ("failed sync",), "damage"),
    Rule(8, leave_damage, 0, "liveness", ("rot", "rot of the leader")),
    Rule(9, forget_producers, 0, "I11", ("kill the leader", "stop the leader")),
    Rule(10, stop_without_a_successor, 7, "a leader after the stop", ("stop the leader",), "stop"),
    Rule(12, wait_for_the_slowest, 0, "time in sync", ("pause",), "pause"),
    Rule(13, gather_on_followers, 3, "time of a flush", ("kill",)),
)
