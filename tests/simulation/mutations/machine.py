"""Mutations of the code that protects data and services from failing machines."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Any
from unittest import mock

from twisted.internet.defer import Deferred

from logd.broker import shutdown
from logd.broker.requests.session import BrokerSession
from logd.broker.topics.ends_recorder import EndsRecorder
from logd.coord.server.storage import change_file
from logd.coord.server.storage import recovery as recovery_of_tree
from logd.coord.server.storage.folder import numbers_of
from logd.coord.server.storage.journal import Journal
from logd.coord.server.storage.tree_reopening import Reopening
from logd.log.damage import repair
from logd.log.recovery import recovery
from logd.testing.memory.broker import MemoryBroker
from tests.simulation.mutations.patching import all_of


@contextmanager
def begin_a_lost_log_again() -> Iterator[None]:
    """A missing log whose stored end is in the tree begins again at 0."""
    with mock.patch.object(EndsRecorder, "_compare_one", lambda *arguments: None):
        yield


@contextmanager
def end_at_a_lost_segment() -> Iterator[None]:
    """A log with a missing segment ends before that segment, and new messages follow there."""
    with ExitStack() as patches:
        patches.enter_context(mock.patch.object(recovery, "find_losses", lambda *arguments: []))
        patches.enter_context(begin_a_lost_log_again())
        yield


def time_by_the_time_of_day() -> AbstractContextManager[Any]:
    """Timers use the time of day, so a clock that is set back delays them."""
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
    """The tree makes no more changes after the first one that its disk refuses."""

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


def stop_while_producers_send() -> AbstractContextManager[Any]:
    """A stop goes on taking messages until everything is flushed, which never ends while a producer sends."""

    async def leave_open(stopping: shutdown.Shutdown, until: float) -> None:
        return None

    return all_of(
        mock.patch.object(BrokerSession, "stop", lambda session: session._fetching.finish()),
        mock.patch.object(shutdown.Shutdown, "_answer", leave_open),
    )


def refuse_what_a_snapshot_has() -> AbstractContextManager[Any]:
    """The tree does not start with a damaged change, though its snapshot contains that change."""
    return mock.patch.object(change_file, "_covered", lambda *arguments: None)


def trust_the_newest_snapshot_alone() -> AbstractContextManager[Any]:
    """The tree does not start with a damaged snapshot, though there are an older one and all changes since."""

    def only_the_newest(kind: str, names: list[str]) -> list[int]:
        return numbers_of(kind, names)[-1:] if kind == "snapshot" else numbers_of(kind, names)

    return mock.patch.object(recovery_of_tree, "numbers_of", only_the_newest)


def overwrite_what_no_codec_opens() -> AbstractContextManager[Any]:
    """A repair overwrites an entry whose checksum matches and that no codec opens, without keeping its bytes."""
    return mock.patch.object(repair, "_keep_entries", lambda files, file, damages: 0)


#: The mutations of this module, by name.
MACHINE_MUTATIONS: dict[str, Callable[[], AbstractContextManager[Any]]] = {
    each.__name__: each
    for each in (
        begin_a_lost_log_again,
        end_at_a_lost_segment,
        time_by_the_time_of_day,
        end_the_tree_on_a_full_disk,
        stop_without_a_deadline,
        stop_while_producers_send,
        refuse_what_a_snapshot_has,
        trust_the_newest_snapshot_alone,
        overwrite_what_no_codec_opens,
    )
}
