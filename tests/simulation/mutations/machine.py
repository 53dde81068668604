"""Ways to break on purpose what protects from the faults of machines, each of which a simulation has to find."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Any
from unittest import mock

from twisted.internet.defer import Deferred

from logd.broker import shutdown
from logd.broker.topics.ends_recorder import EndsRecorder
from logd.coord.server.storage.journal import Journal
from logd.coord.server.storage.tree_reopening import Reopening
from logd.log.recovery import recovery
from logd.testing.memory.broker import MemoryBroker


@contextmanager
def begin_a_lost_log_again() -> Iterator[None]:
    """A log that the tree knows of, and that is not here, begins at 0."""
    with mock.patch.object(EndsRecorder, "_compare_one", lambda *arguments: None):
        yield


@contextmanager
def end_at_a_lost_segment() -> Iterator[None]:
    """A log ends where a segment that was vouched for is missing, and goes on there."""
    with ExitStack() as patches:
        patches.enter_context(mock.patch.object(recovery, "find_losses", lambda *arguments: []))
        patches.enter_context(begin_a_lost_log_again())
        yield


def time_by_the_time_of_day() -> AbstractContextManager[Any]:
    """Timers go by a clock that can be set: set back, they wait for it to come to their time again."""
    set_clock = MemoryBroker.set_clock

    def move_timers(broker: MemoryBroker, ahead: float) -> None:
        back = broker.wall_offset - ahead
        set_clock(broker, ahead)
        if broker.clock is not None:
            for call in broker.clock.getDelayedCalls():
                broker.clock.move(call, max(call.time + back, broker.clock.seconds()))

    return mock.patch.object(MemoryBroker, "set_clock", move_timers)


@contextmanager
def end_the_tree_on_a_full_disk() -> Iterator[None]:
    """The first change that the disk of the tree refuses is the last."""

    def give_up(journal: Journal, error: BaseException | None) -> None:
        journal._queue.clear()
        journal.error = failure = journal._failure(error or OSError())
        journal._tell_failed(failure)

    with ExitStack() as patches:
        patches.enter_context(mock.patch.object(Journal, "_try_again", give_up))
        patches.enter_context(mock.patch.object(Reopening, "begin", lambda reopening: None))
        yield


def stop_without_a_deadline() -> AbstractContextManager[Any]:
    """A stop waits for the disk, however long that takes."""

    def at_last(clock: Any, deadline: float, doing: Deferred[Any]) -> Deferred[bool]:
        fired: Deferred[bool] = Deferred()
        doing.addBoth(lambda _: fired.callback(True))
        return fired

    return mock.patch.object(shutdown, "_fired_by", at_last)


#: All of them, by their names.
MACHINE_MUTATIONS: dict[str, Callable[[], AbstractContextManager[Any]]] = {
    each.__name__: each
    for each in (
        begin_a_lost_log_again,
        end_at_a_lost_segment,
        time_by_the_time_of_day,
        end_the_tree_on_a_full_disk,
        stop_without_a_deadline,
    )
}
