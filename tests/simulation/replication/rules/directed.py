"""Rules of replication that a simulation cannot break, since others stand behind them: each has a named test.

An answer of another epoch that is used all the same is truncated again by rule 2; what the simulated disks damage is
visible, so that followers rarely fetch it, and who is asked for bytes has checked them; and simulated strangers do not
claim to be brokers.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from contextlib import AbstractContextManager
from typing import Any
from unittest import mock

from attrs import frozen

from logd.broker.replication.follower import FollowerRole
from logd.broker.replication.follower_truncation import FollowerTruncation
from logd.broker.replication.healing.read_requests import ReplicaReads
from logd.broker.replication.leader import LeaderRole
from logd.broker.replication.replica_manager import ReplicaManager
from logd.broker.replication.replica_requests import ReplicaRequests
from logd.broker.security.rights import Rights
from logd.broker.topics import lost_replicas
from logd.coord.partition_state import PartitionState
from logd.coord.registries.partition_states import KnownState
from logd.coord.registries.stored_ends import StoredEnds
from logd.log.damage import replacement
from logd.log.damage.verified_read import read_verified
from logd.protocol.requests.replica_fetch import ReplicaPart
from logd.protocol.requests.replicas.replica_read import ReplicaReadV1
from tests.broker.replication.healing.test_sources import CheckedBytesTests, ReplicaReadTests
from tests.broker.replication.test_fencing import FollowerGuardTests
from tests.broker.replication.test_in_sync import GatheredTests
from tests.broker.replication.test_lost_replicas import AddedMeanwhileTests, AllLostTests, UncomparedTests
from tests.broker.replication.test_made_again import MadeAgainTests
from tests.broker.replication.test_replicas import FetchSessionTests, SecuredTests
from tests.simulation.mutations.patching import all_of
from tests.simulation.replication.rules.mutations import (
    flushed_soon_unless,
    follow_in_any_epoch,
    read_where_nobody_leads,
)


def append_what_comes() -> AbstractContextManager[Any]:
    """A follower appends what its leader sends without checking the entries."""

    def append(role: FollowerRole, data: Any, *more: Any) -> bool:
        role.log.append([bytes(data)], 1, -1)
        return True

    return mock.patch.object(FollowerRole, "_append", append)


def let_anybody_follow() -> AbstractContextManager[Any]:
    """A broker answers the requests of followers whoever sends them."""
    return mock.patch.object(Rights, "broker_refusal", lambda rights: None)


def follow_topics_by_name() -> AbstractContextManager[Any]:
    """A leader does not compare the uuids of topics: one that was made again is the same to it."""
    follow = ReplicaRequests._follow

    def any_topic(requests: ReplicaRequests, request: Any, part: ReplicaPart) -> None:
        follow(requests, request, part._replace(uuid=""))

    return mock.patch.object(ReplicaRequests, "_follow", any_topic)


def begin_again_beside_changes() -> AbstractContextManager[Any]:
    """A replica begins again though a change that adds it to the in-sync set may be under way."""

    async def nothing(truncation: FollowerTruncation, known: KnownState, state: PartitionState) -> None:
        return None

    return mock.patch.object(FollowerTruncation, "_outdate_changes", nothing)


def take_roles_uncompared() -> AbstractContextManager[Any]:
    """A replica leads and follows before its log was compared with what the tree knows to be stored."""
    return mock.patch.object(ReplicaManager, "is_compared", lambda manager, topic, uuid: True)


def begin_again_beside_a_log() -> AbstractContextManager[Any]:
    """A partition may begin again though another broker has a log of it, or may be back with one."""

    def end(
        name: str, number: int, me: int, members: Collection[int], stored: Mapping[int, StoredEnds], live: object
    ) -> int:
        return max((each.ends.get(number, 0) for each in stored.values()), default=0)

    return mock.patch.object(lost_replicas, "end_of_lost", end)


def give_bytes_out_of_sync() -> AbstractContextManager[Any]:
    """A replica gives its bytes to one that heals though it is not in sync."""
    return mock.patch.object(PartitionState, "is_member", lambda state, broker, instance: True)


def give_what_is_not_visible() -> AbstractContextManager[Any]:
    """A replica gives the bytes of all its log to one that heals, visible or not."""

    async def read(reads: ReplicaReads, request: ReplicaReadV1) -> bytes:
        log = reads._manager.store.log(request.topic, request.partition)
        assert log is not None
        return read_verified(log.snapshot(log.end), request.position, request.length)

    return mock.patch.object(ReplicaReads, "_read", read)


def heal_with_what_comes() -> AbstractContextManager[Any]:
    """A replica that heals takes the bytes of the other one without checking them."""

    sound = mock.Mock(misplaced=-1, **{"run.return_value": ()})
    return all_of(
        mock.patch.object(replacement, "check_entries", lambda data, position: None),
        mock.patch.object(replacement, "SegmentWalk", lambda *_: sound),
    )


def gather_before_the_epoch() -> AbstractContextManager[Any]:
    """A leader that is elected again goes on to gather messages from before its epoch."""
    return flushed_soon_unless(LeaderRole)


@frozen
class DirectedRule:
    """A rule switched off, and the test that fails then: ``words`` are in its failure."""

    number: int
    mutation: Callable[[], AbstractContextManager[Any]]
    test: Callable[..., None]
    words: str

    @property
    def test_name(self) -> str:
        """The dotted name of the test."""
        return f"{self.test.__module__}.{self.test.__qualname__}"


DIRECTED_RULES: tuple[DirectedRule, ...] = (
    DirectedRule(
        3,
        follow_in_any_epoch,
        FollowerGuardTests.test_an_answer_of_another_epoch_is_not_used,
        "True is not false",
    ),
    DirectedRule(
        3,
        follow_topics_by_name,
        MadeAgainTests.test_a_leader_of_the_former_topic_gives_nothing_to_the_new_one,
        "b'former' in b",
    ),
    DirectedRule(3, read_where_nobody_leads, FetchSessionTests.test_a_follower_does_not_answer, "0 != 123"),
    DirectedRule(
        6,
        begin_again_beside_changes,
        AddedMeanwhileTests.test_a_leader_that_it_reaches,
        "True is not false",
    ),
    DirectedRule(
        6,
        begin_again_beside_a_log,
        AllLostTests.test_a_replica_that_may_be_back_with_its_log,
        "0 != 113",
    ),
    DirectedRule(6, take_roles_uncompared, UncomparedTests.test_it_does_not_follow_yet, "FollowerRole"),
    DirectedRule(8, append_what_comes, FollowerGuardTests.test_a_damaged_entry_is_not_appended, "True is not false"),
    DirectedRule(
        8,
        give_bytes_out_of_sync,
        ReplicaReadTests.test_a_replica_that_is_not_in_sync_gives_nothing,
        "Tuples differ: (0, b",
    ),
    DirectedRule(
        8,
        give_what_is_not_visible,
        ReplicaReadTests.test_what_is_not_visible_is_not_given,
        "Tuples differ: (0, b",
    ),
    DirectedRule(
        8,
        heal_with_what_comes,
        CheckedBytesTests.test_altered_bytes_are_not_taken,
        "bytes were taken that are not sound",
    ),
    DirectedRule(11, let_anybody_follow, SecuredTests.test_nobody_else_may_follow, "0 != "),
    DirectedRule(
        13,
        gather_before_the_epoch,
        GatheredTests.test_a_leader_that_is_elected_again_knows_its_visible_end_soon,
        "False is not true",
    ),
)
