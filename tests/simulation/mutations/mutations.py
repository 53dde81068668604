"""Mutations of rebalances (Algorithm 1), fencing and the code below, and the table of all mutations."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import Any
from unittest import mock

from attrs import evolve

from logd.client.consumer.fetching.partition_fetch import OutOfRange, PartitionFetch
from logd.client.consumer.group.group_stream_state import GroupStreamState
from logd.client.consumer.group.reader import Group
from logd.coord.errors import CoordinationError
from logd.coord.groups import registry_view as view
from logd.coord.groups.assignment import share_of
from logd.coord.groups.claims import Claim, Claims, Conflict
from logd.coord.groups.liveness import LivenessTimer
from logd.coord.groups.rebalance import GroupShare
from logd.coord.records import ANY_VERSION, Check, SetData
from logd.coord.registries.offsets import OffsetRegistry, encode_position
from logd.coord.server.storage.journal import Journal
from logd.testing.memory.files import MemoryFiles
from logd.topic import TopicPartition
from tests.simulation.mutations.broker import BROKER_MUTATIONS
from tests.simulation.mutations.connections import CONNECTION_MUTATIONS
from tests.simulation.mutations.kafka import KAFKA_MUTATIONS
from tests.simulation.mutations.machine import MACHINE_MUTATIONS
from tests.simulation.mutations.publishing import PUBLISHING_MUTATIONS
from tests.simulation.mutations.reader import READER_MUTATIONS
from tests.simulation.mutations.rest import REST_MUTATIONS


def commit_without_version() -> AbstractContextManager[Any]:
    """A commit does not check the version of the offset's node."""

    def commit(registry: OffsetRegistry, where: TopicPartition, position: int, version: int) -> SetData:
        return SetData(registry.path(where), encode_position(position), ANY_VERSION)

    return mock.patch.object(OffsetRegistry, "commit", commit)


def claim_without_fence() -> AbstractContextManager[Any]:
    """A claim leaves the offset's node unchanged, so the former owner's version remains valid."""
    fence = OffsetRegistry.fence
    as_found: dict[tuple[int, TopicPartition], int] = {}

    def without(registry: OffsetRegistry, where: TopicPartition, found: Any) -> Any:
        as_found[id(registry), where] = 0 if found is None else found.version
        return fence(registry, where, None) if found is None else Check(registry.path(where), found.version)

    take = Claims._take

    async def take_as_found(holdings: Claims, held: Any, doubtful: Any, wanted: Any) -> None:
        await take(holdings, held, doubtful, wanted)
        for where in wanted:
            if where in held:
                held[where].version = as_found[id(holdings._offsets), where]

    return _both(mock.patch.object(OffsetRegistry, "fence", without), mock.patch.object(Claims, "_take", take_as_found))


def no_own_timer() -> AbstractContextManager[Any]:
    """A consumer without an answer from the tree continues past its session timeout."""
    return _both(
        mock.patch.object(LivenessTimer, "held", property(lambda timer: True)),
        mock.patch.object(LivenessTimer, "_look", lambda timer: None),
    )


def keep_fetching() -> AbstractContextManager[Any]:
    """Fetching continues during a rebalance."""
    return mock.patch.object(Group, "stop", lambda group: None)


def claim_without_waiting() -> AbstractContextManager[Any]:
    """A consumer claims partitions that another consumer still owns."""
    take = Claims._take

    async def force(holdings: Claims, held: Any, doubtful: Any, wanted: Any) -> None:
        try:
            await take(holdings, held, doubtful, wanted)
        except Conflict:
            for where in wanted:
                with suppress(CoordinationError):
                    await holdings._coordination.delete(holdings._owners.path(where))
            await take(holdings, held, doubtful, wanted)

    return mock.patch.object(Claims, "_take", force)


def take_anothers_claim_for_ours() -> AbstractContextManager[Any]:
    """A claim succeeds where another consumer's node exists already."""
    take = Claims._take

    async def believe(holdings: Claims, held: Any, doubtful: Any, wanted: Any) -> None:
        try:
            await take(holdings, held, doubtful, wanted)
        except Conflict:
            for where, stream in wanted.items():
                found = await holdings._offsets.read(where)
                position, version = (None, 0) if found is None else (found.position, found.version)
                held[where] = Claim(stream, position, version)

    return mock.patch.object(Claims, "_take", believe)


def keep_half_a_claim() -> AbstractContextManager[Any]:
    """After a conflict a consumer keeps the claims that succeeded, and does not claim the others again."""
    claim = Claims.claim

    async def keep(holdings: Claims, wanted: Mapping[TopicPartition, str]) -> dict[TopicPartition, int | None]:
        with mock.patch.object(holdings, "_give_back", _nothing):
            try:
                return await claim(holdings, wanted)
            except Conflict:
                return holdings.positions

    return mock.patch.object(Claims, "claim", keep)


def commit_what_was_handed_over() -> AbstractContextManager[Any]:
    """A message counts as handled as soon as it is delivered."""

    def handled(stream: GroupStreamState, fetch: PartitionFetch) -> int:
        return fetch.position

    return mock.patch.object(GroupStreamState, "_handled", handled)


def remainder_twice() -> AbstractContextManager[Any]:
    """Each partition of the remainder is assigned to two streams."""

    def share(index: int, streams: int, partitions: int) -> tuple[int, int]:
        begin, end = share_of(index, streams, partitions)
        return begin, min(partitions, end + (1 if partitions % streams else 0))

    return mock.patch.object(view, "share_of", share)


def remainder_to_nobody() -> AbstractContextManager[Any]:
    """The partitions of the remainder are assigned to no stream."""

    def share(index: int, streams: int, partitions: int) -> tuple[int, int]:
        each = partitions // streams
        return each * index, each * (index + 1)

    return mock.patch.object(view, "share_of", share)


def release_before_committing() -> AbstractContextManager[Any]:
    """A consumer releases its partitions before it commits their positions."""
    commit, release = Claims.commit, Claims.release

    async def release_first(holdings: Claims, handled: Callable[[], Mapping[TopicPartition, int]]) -> Any:
        kept = dict(holdings._held)
        await release(holdings)
        holdings._held.update(kept)
        return await commit(holdings, handled)

    return mock.patch.object(Claims, "commit", release_first)


def deaf_to_members() -> AbstractContextManager[Any]:
    """Members do not react when consumers join or leave."""
    read = view.GroupView.read

    async def once(self: view.GroupView, subscription: Any) -> Any:
        self._ids._changed = lambda: None
        return await read(self, subscription)

    return mock.patch.object(view.GroupView, "read", once)


def stay_removed() -> AbstractContextManager[Any]:
    """A member whose entry was removed does not register again."""
    return mock.patch.object(GroupShare, "_look", lambda share, subscription: share._view.read(subscription))


def believe_in_a_lost_session() -> AbstractContextManager[Any]:
    """A consumer in a new session keeps the claims of the former one."""
    rebalance = GroupShare.rebalance

    async def believing(share: GroupShare) -> None:
        if share._session:
            share._session = share._coordination.session_id
        await rebalance(share)

    # A member that checks its entry in the tree would notice, too.
    return _both(mock.patch.object(GroupShare, "rebalance", believing), stay_removed())


def skip_what_is_left() -> AbstractContextManager[Any]:
    """A consumer whose position was removed by retention continues at the end of the log."""
    jump = PartitionFetch._jump

    def to_the_end(fetch: PartitionFetch, gone: OutOfRange) -> None:
        jump(fetch, evolve(gone, log_start=gone.visible_end))

    return mock.patch.object(PartitionFetch, "_jump", to_the_end)


def skip_silently() -> AbstractContextManager[Any]:
    """A consumer does not count messages that retention removed before it read them."""
    jump = PartitionFetch._jump

    def uncounted(fetch: PartitionFetch, gone: OutOfRange) -> None:
        jump(fetch, gone)
        fetch.losses.jumps = 0

    return mock.patch.object(PartitionFetch, "_jump", uncounted)


def answer_before_the_flush() -> AbstractContextManager[Any]:
    """A broker's syncs of segments do nothing."""
    of_one = ("data in flush_task.run of the last", "data in flush_task.run of the rolled")
    return _skipping(*of_one, "file system in flush_task.run")


def tree_answers_before_the_flush() -> AbstractContextManager[Any]:
    """The tree answers when a change is appended, before it is flushed."""
    append = Journal.append

    def at_once(journal: Journal, change: Any) -> None:
        append(journal, change)
        journal._tell_flushed(change.zxid)

    return mock.patch.object(Journal, "append", at_once)


#: All mutations that the simulator has to find, by name.
MUTATIONS: dict[str, Callable[[], AbstractContextManager[Any]]] = (
    {
        each.__name__: each
        for each in (
            commit_without_version,
            claim_without_fence,
            no_own_timer,
            keep_fetching,
            claim_without_waiting,
            take_anothers_claim_for_ours,
            keep_half_a_claim,
            commit_what_was_handed_over,
            remainder_twice,
            remainder_to_nobody,
            release_before_committing,
            deaf_to_members,
            believe_in_a_lost_session,
            stay_removed,
            skip_what_is_left,
            skip_silently,
            answer_before_the_flush,
            tree_answers_before_the_flush,
        )
    }
    | MACHINE_MUTATIONS
    | BROKER_MUTATIONS
    | CONNECTION_MUTATIONS
    | KAFKA_MUTATIONS
    | PUBLISHING_MUTATIONS
    | READER_MUTATIONS
    | REST_MUTATIONS
)


@contextmanager
def _both(*patches: AbstractContextManager[Any]) -> Iterator[None]:
    if not patches:
        yield
        return
    with patches[0], _both(*patches[1:]):
        yield


async def _nothing(*arguments: object) -> None:
    return None


def _skipping(*sites: str) -> AbstractContextManager[Any]:
    begin = MemoryFiles.__init__

    def init(files: MemoryFiles, *arguments: Any, **more: Any) -> None:
        begin(files, *arguments, **more)
        files.skipped |= set(sites)

    return mock.patch.object(MemoryFiles, "__init__", init)
