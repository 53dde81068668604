"""Mutations that a simulation does not find, of code that it does not run for instance: each has a named test."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any
from unittest import mock

from attrs import frozen
from twisted.python.threadpool import ThreadPool

from logd.coord.server.server import CoordinationServer
from logd.net import threads
from logd.spark.importer import import_plan
from logd.spark.importer.import_plan import LogState, Plan
from logd.spark.importer.targets.offsets import Lineage
from tests.client.producer.publishing.test_publish import FullTests
from tests.client.producer.publishing.test_publish_failures import FailureTests as PublishFailureTests
from tests.client.producer.test_too_large import TooLargeTests
from tests.coord.server.test_server import FailureTests
from tests.net.test_threads import DiskThreadsTests
from tests.simulation.mutations import publishing
from tests.simulation.mutations.patching import replaced_everywhere
from tests.spark.importer.test_import_plan import PlanTests


def start_threads_when_needed() -> AbstractContextManager[Any]:
    """Threads that wait for disks are started by the work that needs them, which is lost if no thread can start."""

    def none_yet(least: int, most: int, name: str) -> ThreadPool:
        return ThreadPool(0, most, name)

    return mock.patch.object(threads, "ThreadPool", none_yet)


def stop_at_a_damaged_tree() -> AbstractContextManager[Any]:
    """A broker whose own coordination tree is damaged does not start, though its logs could be served."""
    return mock.patch.object(CoordinationServer, "start_when_sound", CoordinationServer.start)


def leave_out_logs_that_end_before() -> AbstractContextManager[Any]:
    """An import leaves out a log that ends before the target's position, and later what it gets up to there."""
    plan = import_plan.plan

    def without(states: Sequence[LogState], positions: Mapping[Lineage, int], accept_loss: bool) -> Plan:
        longer = [state for state in states if positions.get(state.lineage, 0) <= state.visible_end]
        return plan(longer, positions, accept_loss)

    return replaced_everywhere(plan, without)


@frozen
class DirectedMutation:
    """A mutation, the test that has to fail under it, and words that its failure has to contain."""

    apply: Callable[[], AbstractContextManager[Any]]
    #: A method of a test case.
    test: Callable[..., Any]
    words: str

    @property
    def test_name(self) -> str:
        """The dotted name of the test."""
        return f"{self.test.__module__}.{self.test.__qualname__}"


#: The mutations of this module, by name.
DIRECTED_MUTATIONS: dict[str, DirectedMutation] = {
    each.apply.__name__: each
    for each in (
        DirectedMutation(
            start_threads_when_needed,
            DiskThreadsTests.test_all_threads_exist_after_the_start,
            "RuntimeError: can't start new thread",
        ),
        DirectedMutation(
            stop_at_a_damaged_tree,
            FailureTests.test_a_tree_damaged_at_its_start_is_served_once_mended,
            "DataDirectoryError: the coordination tree",
        ),
        DirectedMutation(
            leave_out_logs_that_end_before, PlanTests.test_a_log_shorter_than_loaded_is_a_loss, "DataLost not raised"
        ),
        DirectedMutation(
            publishing.drop_what_is_published_when_full,
            FullTests.test_published_messages_do_not_overtake_sends_that_wait,
            "Lists differ: [b's",
        ),
        DirectedMutation(
            publishing.fail_silently,
            PublishFailureTests.test_messages_too_late_are_reported,
            "found success result (None) instead",
        ),
        DirectedMutation(
            publishing.send_again_in_reverse,
            TooLargeTests.test_the_order_holds_around_a_message_left_out,
            "Lists differ: [b'038",
        ),
    )
}
