"""Tests that the simulation compares what replicas append, at once: each of these faults is found in some seeds."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any
from unittest import mock

from twisted.trial.unittest import SynchronousTestCase

from logd.broker.replication.followers import CopyWaiters
from logd.log.index.index import ActiveIndex
from tests.frozen_objects import freeze_others
from tests.simulation.replication.invariants.ends import Ends
from tests.simulation.replication.life import live
from tests.simulation.violation import Violation

#: Seeds that are tried.
SEEDS = 10


def index_beside_entries() -> AbstractContextManager[Any]:
    """Have indexes name positions inside entries."""
    note = ActiveIndex.note

    def beside(index: ActiveIndex, position: int, *more: int) -> None:
        note(index, position + 1, *more)

    return mock.patch.object(ActiveIndex, "note", beside)


def acknowledge_one_copy() -> AbstractContextManager[Any]:
    """Have leaders take one copy for as many as a producer asks for."""
    wait = CopyWaiters.wait

    def for_one(waiters: CopyWaiters, copies: int, *more: Any) -> Any:
        return wait(waiters, 1, *more)

    return mock.patch.object(CopyWaiters, "wait", for_one)


class EntryTests(SynchronousTestCase):
    """The end of a life is not looked at here."""

    def setUp(self) -> None:
        """Freeze the objects of other tests, so that no collection of garbage looks through them."""
        freeze_others(self)

    def assert_found(self, fault: Callable[[], AbstractContextManager[Any]], text: str) -> None:
        """Assert that a seed says that."""
        with mock.patch.object(Ends, "check", lambda ends: None), fault():
            for seed in range(SEEDS):
                try:
                    live(seed, kinds=("reader",))
                except Violation as violation:
                    self.assertIn(text, str(violation))
                    return
        self.fail("none of the seeds finds it")

    def test_an_index_beside_entries(self) -> None:
        """Boundaries of an index are compared with where entries begin."""
        self.assert_found(index_beside_entries, "I10: an index names no entry's beginning")

    def test_too_few_copies(self) -> None:
        """A message is acknowledged once as many brokers have it as its producer asks for."""
        self.assert_found(acknowledge_one_copy, "a message has too few copies")
