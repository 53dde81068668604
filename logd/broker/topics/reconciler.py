"""Reconciles the logs stored here with the topics in the coordination tree, at the start and at each change."""

from __future__ import annotations

from collections.abc import Callable

from attrs import define, field
from twisted.logger import Logger

from logd.broker.topics.comparison import StillCounted, TopicComparison
from logd.broker.topics.directory import TopicDirectory
from logd.broker.topics.ends_recorder import EndsRecorder
from logd.broker.topics.named_locks import NamedLocks
from logd.broker.topics.own_changes import OwnChanges
from logd.broker.topics.stored_topics import StoredTopics
from logd.coord import paths
from logd.coord.errors import BadVersion, CoordinationError, NoNode
from logd.coord.interfaces import ICoordination
from logd.coord.registries.child_cache import ChildCache
from logd.coord.registries.topics import watch_topics
from logd.deferreds.background import Background
from logd.deferreds.gathering import for_each
from logd.errors import WireError
from logd.interfaces import Clock, Timer
from logd.topic import TopicEntry

#: Seconds until a topic that could not be settled is compared again.
RETRY_SECONDS = 5.0
#: Seconds after which it is logged that a replica is still counted on, so at the third attempt. It passes by itself
#: while a leader and the controller learn of a reassignment.
LASTING_SECONDS = 1.5 * RETRY_SECONDS
#: The number of topics that are compared at a time. They share round trips to the tree and syncs of topics.json; more
#: of them would delay a creation that comes behind them.
COMPARED_AT_ONCE = 50


@define
class _Unsettled:
    """The reason why a topic could not be settled, and the time of the first attempt that failed for it."""

    text: str
    since: float
    logged: bool = False


@define(eq=False)
class TopicReconciler:
    """A queue of topics to compare (see ``comparison``), each under its lock. Failed comparisons are retried later."""

    _log = Logger()

    _tree: ICoordination
    _stored: StoredTopics
    _clock: Clock
    #: This broker's id.
    _me: int
    _ends: EndsRecorder
    _directory: TopicDirectory
    _comparison: TopicComparison
    #: Called when the topics stored here have changed.
    on_change: Callable[[], None] = field(default=lambda: None, init=False)
    #: True once all topics stored here were compared with the tree.
    settled: bool = field(default=False, init=False)
    _cache: ChildCache[TopicEntry] = field(init=False)
    #: Topics to compare.
    _dirty: set[str] = field(factory=set, init=False)
    #: The reasons why topics could not be settled.
    _troubles: dict[str, _Unsettled] = field(factory=dict, init=False)
    #: Changes made here that the child cache may not show yet.
    _own: OwnChanges = field(factory=OwnChanges, init=False)
    #: Held during each change of a topic, here or by the administration of topics.
    locks: NamedLocks = field(factory=NamedLocks, init=False)
    _working: bool = field(default=False, init=False)
    _retry: Timer | None = field(default=None, init=False)
    stopping: bool = field(default=False, init=False)
    _background: Background = field(factory=lambda: Background("following the coordination tree"), init=False)
    _following: bool = field(default=False, init=False)

    def __attrs_post_init__(self) -> None:
        self._cache = watch_topics(self._tree, self._clock, self._changed)
        self._ends.changed = self.recheck
        self._comparison.changed = lambda: self.on_change()

    async def begin(self) -> None:
        """Compare all topics, and follow the tree from then on. Call it once this broker is registered.

        Raises CoordinationError; the call can be repeated.
        """
        if not self._following:
            await self._remove_notes()
            self._following = True
            self._cache.start()
        await self._cache.when_complete()
        self._dirty |= {*self._stored.entries, *self._cache.values}
        await self._settle_dirty()
        self.settled = True
        self._work()

    async def _remove_notes(self) -> None:
        # Removes notes on topics that are not stored here any more, before the child cache has read anything older.
        uuids = {entry.uuid for entry in self._stored.entries.values()}
        try:
            noted = await self._tree.get_children(paths.DELETED_TOPICS)
        except NoNode:
            noted = []
        for each in noted:
            if each not in uuids:
                from logd.coord.registries.deleted_topics import removed_by  # there are rarely any notes

                try:
                    await removed_by(self._tree, each, self._me)
                except ValueError as error:
                    self._log.warn("a note of a deleted topic cannot be read and is ignored: {error}", error=str(error))
                except BadVersion as error:  # nothing of the topic is here, so this broker need not wait for it
                    self._log.warn("a note of a deleted topic stays until the next start: {error}", error=str(error))

    def halt(self) -> None:
        """Stop following the tree, and stop creating and deleting logs."""
        self.stopping = True
        self._ends.halt()
        self._cache.stop()
        if self._retry is not None:
            self._retry.cancel()
            self._retry = None

    async def when_idle(self) -> None:
        """Wait until no comparison or change is under way."""
        await self.locks.when_idle()

    @property
    def conflicts(self) -> dict[str, str]:
        """The reasons why stored partitions are not served, by topic."""
        return self._comparison.conflicts

    # Called by the administration of topics, which holds the topic's lock

    async def settle(self, topic: str, entry: TopicEntry | None) -> None:
        """Compare a topic whose entry in the tree is ``entry``, and act on the difference.

        Raises CoordinationError, WireError, and ValueError for a node that cannot be read.
        """
        entry = await self._comparison.settle(topic, entry)
        self._troubles.pop(topic, None)
        if entry is None:
            self._directory.hide(topic)
        else:
            self._directory.show(topic, entry)

    async def settle_shown(self, topic: str) -> None:
        """Compare a topic with the last seen state of the tree; see ``settle``."""
        await self.settle(topic, self._own.latest(topic, self._cache.values.get(topic)))

    async def alter(self, topic: str, former: TopicEntry, entry: TopicEntry) -> None:
        """Act on an entry that was just changed in the tree, and not on its former one any more; see ``settle``."""
        self._own.altered(topic, former, entry, self._cache.values.get(topic))
        await self.settle(topic, entry)

    async def forget(self, topic: str) -> None:
        """Remove the logs and the record of a topic that was just deleted; see ``settle``."""
        self._own.deleted(topic, self._cache.values.get(topic))
        await self.settle(topic, None)

    def try_again(self, topic: str, error: Exception) -> None:
        """Compare a topic again later, after ``error`` kept it from being settled."""
        text, now = str(error), self._clock.seconds()
        trouble = self._troubles.get(topic)
        if trouble is None or trouble.text != text:
            trouble = self._troubles[topic] = _Unsettled(text, now)
        passing = isinstance(error, StillCounted) and now - trouble.since < LASTING_SECONDS
        if not trouble.logged and not passing:  # logged once, not at every retry until an operator has mended it
            trouble.logged = True
            self._log.warn(
                "topic {topic} does not agree with the coordination tree yet; trying again until it does: {error}",
                topic=topic,
                error=text,
            )
        self._dirty.add(topic)
        self._retry_later()

    # Changes in the tree

    def _changed(self, topic: str) -> None:
        self._own.seen(topic, self._cache.values.get(topic))
        self.recheck(topic)

    def recheck(self, topic: str) -> None:
        """Compare a topic again: a partition of it is served again, or a node of this broker was changed."""
        self._dirty.add(topic)
        if self.settled:
            self._work()

    def _work(self) -> None:
        if not self._working and not self.stopping:
            self._working = True
            self._background.start(self._work_off())

    async def _work_off(self) -> None:
        try:
            while self._dirty and not self.stopping:
                if not await self._settle_dirty():
                    self._retry_later()  # the timer of the first failure may have fired before the others were done
                    return
        finally:
            self._working = False

    async def _settle_dirty(self) -> bool:
        """Compare the queued topics; return whether all could be settled."""
        topics, self._dirty = sorted(self._dirty), set()
        whole = True

        async def compare(topic: str) -> None:
            nonlocal whole
            async with self.locks.hold(topic):
                if not self.stopping:
                    try:
                        await self.settle_shown(topic)
                    except (CoordinationError, WireError, ValueError) as error:
                        self.try_again(topic, error)
                        whole = False

        await for_each(topics, compare, min(COMPARED_AT_ONCE, len(topics)))
        return whole

    def _retry_later(self) -> None:
        if self._retry is None and not self.stopping:
            self._retry = self._clock.callLater(RETRY_SECONDS, self._retry_now)

    def _retry_now(self) -> None:
        self._retry = None
        self._work()
