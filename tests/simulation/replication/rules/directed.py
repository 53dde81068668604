"""Rules of replication that a simulation cannot break, since others stand behind them: each has a named test.

An answer of another epoch that is used all the same is truncated again by rule 2; the simulated disks damage no entry
that a leader sends; and simulated strangers do not claim to be brokers.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any
from unittest import mock

from attrs import frozen

from logd.broker.replication.follower import FollowerRole
from logd.broker.security.rights import Rights
from tests.broker.replication.test_fencing import FollowerGuardTests
from tests.broker.replication.test_replicas import FetchSessionTests, SecuredTests
from tests.simulation.replication.rules.mutations import follow_in_any_epoch, read_where_nobody_leads


def append_what_comes() -> AbstractContextManager[Any]:
    """A follower appends what its leader sends without checking the entries."""

    def append(role: FollowerRole, data: Any, *more: Any) -> bool:
        role.log.append([bytes(data)], 1, -1)
        return True

    return mock.patch.object(FollowerRole, "_append", append)


def let_anybody_follow() -> AbstractContextManager[Any]:
    """A broker answers the requests of followers whoever sends them."""
    return mock.patch.object(Rights, "broker_refusal", lambda rights: None)


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
    DirectedRule(3, read_where_nobody_leads, FetchSessionTests.test_a_follower_does_not_answer, "0 != 123"),
    DirectedRule(8, append_what_comes, FollowerGuardTests.test_a_damaged_entry_is_not_appended, "True is not false"),
    DirectedRule(11, let_anybody_follow, SecuredTests.test_nobody_else_may_follow, "0 != "),
)
