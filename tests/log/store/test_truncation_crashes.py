"""Tests of random lives of a follower's log on a disk that loses power, with truncations among them."""

from __future__ import annotations

import os
from bisect import bisect_right
from random import Random

from attrs import define, field
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from logd.config import LogSettings
from logd.errors import LogdError
from logd.leadership import PartitionLeadership
from logd.log.disk.names import join, segment_name
from logd.log.index import lookup
from logd.log.partition import PartitionLog
from logd.log.store.log_store import LogStore
from logd.testing.memory.disk import PowerLoss
from logd.testing.memory.files import MemoryFiles
from tests.log.crashes.seeds import seeds_from
from tests.log.crashes.shadow import Broken, check
from tests.log.entries import plain
from tests.log.threads import Threads

HISTORIES = int(os.environ.get("LOGD_HISTORIES", "200"))
FIRST = int(os.environ.get("LOGD_HISTORY_START", "0"))
STEPS = 120
#: The seeds that find the absence of a sync, where none of the first ones does.
HINTS = {"directory in store.opening.recover_again": 29, "directory in store.truncation.truncate_folder": 1781}
FOLLOWER = PartitionLeadership(1, 3, (1, 0), (1, 0))


@define(eq=False)
class FollowerLife:
    """One log, and the bytes that it has to hold. No two entries are equal, so no old one passes for a new one."""

    seed: int
    skipped: frozenset[str] = frozenset()
    random: Random = field(init=False)
    files: MemoryFiles = field(init=False)
    clock: Clock = field(factory=Clock)
    threads: Threads = field(factory=Threads)
    store: LogStore = field(init=False)
    settings: LogSettings = field(init=False)
    content: bytearray = field(factory=bytearray)
    boundaries: list[int] = field(factory=list)
    start: int = 0
    #: The end of the content that has to survive any crash.
    durable: int = 0
    #: The position of the truncation under way.
    cutting: int | None = None
    #: The number of truncations that were finished.
    cuts: int = 0
    crashes: int = 0
    number: int = 0

    def __attrs_post_init__(self) -> None:
        self.random = Random(self.seed)
        self.clock.advance(1_000_000.0)
        self.files = MemoryFiles(self.random, self.clock.seconds, skipped=set(self.skipped))
        self.settings = LogSettings(
            segment_bytes=self.random.choice([30, 100, 1000]),
            index_bytes=self.random.choice([1, 40, 4096]),
            flush_messages=self.random.choice([-1, 5]),
        )

    def live(self, steps: int) -> None:
        """Live through ``steps``; raise Broken with the seed when an invariant does not hold."""
        try:
            self._open()
            actions = [self._append] * 6 + [self._work] * 5 + [self._deliver] * 5 + [self._truncate, self._checkpoint]
            for _ in range(steps):
                try:
                    draw = self.random.random()
                    if draw < 0.05:
                        self.files.power = self.random.randint(1, 25)
                    elif draw < 0.06:
                        self.files.power = 0
                        raise PowerLoss
                    else:
                        self.random.choice(actions)()
                    self._observe()
                except PowerLoss:
                    self._crash()
            self.files.power = None
            self.threads.settle()
            self._observe()
            self._crash()
        except Broken as error:
            raise Broken(f"seed {self.seed}: {error}") from error

    @property
    def log(self) -> PartitionLog:
        """The log, as the store has it."""
        return self.store.create("t", 0, self.settings)

    # Events

    def _append(self) -> None:
        log = self.log
        if log.offline is None:
            self.number += 1
            entry = plain(b"%d " % self.number + bytes(self.random.randint(0, 20)))
            # Behind the durable end a crash may leave the entry, whether the call returns or not.
            self.boundaries.append(len(self.content))
            self.content += entry
            check(log.append([entry], 1, -1) == self.boundaries[-1], "an append is not at the end", log.end)

    def _work(self) -> None:
        if self.threads.works:
            self.threads.work(self.random.randrange(min(3, len(self.threads.works))))

    def _deliver(self) -> None:
        if self.threads.outcomes:
            self.threads.deliver(self.random.randrange(len(self.threads.outcomes)))

    def _checkpoint(self) -> None:
        self.store.write_checkpoints()

    def _truncate(self) -> None:
        log = self.log
        if log.offline is not None or self.cutting is not None or not self.boundaries:
            return
        position = self.random.choice(self.boundaries[-8:])
        # From here on the bytes behind the position may go at any time.
        self.cutting, self.durable = position, min(self.durable, position)

        def done(error: BaseException | None) -> None:
            check(error is None, "a truncation failed", error)
            self.cutting = None
            self.cuts += 1
            check(self.log.end == position, "a log was not cut where it had to be", self.log.end, position)
            self._cut(position)

        self.store.truncate(log, position, 0, done)

    def _cut(self, end: int) -> None:
        del self.content[end:]
        self.boundaries = [at for at in self.boundaries if at < end]

    def _crash(self) -> None:
        self.crashes += 1
        while True:
            self.threads.works.clear()
            self.threads.outcomes.clear()
            self.files.restart(power_lost=self.random.random() < 0.7)
            if self.random.random() < 0.2:
                self.files.power = self.random.randint(1, 20)
            try:
                self._open()
                self._observe()
            except PowerLoss:
                continue  # the power went during the recovery
            self.files.power = None
            return

    # Invariants

    def _open(self) -> None:
        self.store = LogStore("/data", self.files, self.clock, self.threads, self.settings, open_files_limit=2)
        self.store.open()
        log = self.log
        check(log.offline is None, "the log is offline", log.offline)
        least = self.durable if self.cutting is None else min(self.durable, self.cutting)
        check(least <= log.end <= len(self.content), "the end is elsewhere", least, log.end, len(self.content))
        check(log.end in self.boundaries or log.end == len(self.content), "the end is inside an entry", log.end)
        self._cut(log.end)
        self.cutting = None
        content = b"".join(bytes(self.files._inode(self._path(start)).data) for start, _, _ in log.segments())
        # Before anything was flushed a crash may take the first segment and leave the second.
        check(log.start == self.start or self.durable <= self.start, "the start moved", log.start, self.durable)
        self.start = log.start
        self.boundaries = [at for at in self.boundaries if at >= log.start]
        check(content == self.content[log.start :], "the content is another", log.start, log.end)
        snapshot = log.snapshot(log.end)
        for _ in range(3 if log.start < log.end else 0):
            offset = self.random.randrange(log.start, log.end)
            expected = self.boundaries[bisect_right(self.boundaries, offset) - 1]
            found = lookup.find_boundary(snapshot, offset)
            check(found == expected, "a wrong boundary", offset, found, expected)
        log.leadership, log.visible_end, log.visible_limit = FOLLOWER, log.start, log.start
        self.durable = log.start
        self._observe()

    def _observe(self) -> None:
        """Check that flushed bytes are on the disk, and are those that were appended last at their positions."""
        log = self.log
        if log.offline is not None or self.cutting is not None:
            return
        check(log.flushed_end >= self.durable, "the flushed end moved back", log.flushed_end, self.durable)
        check(self.store.unflushed_bytes >= 0, "unflushed bytes are miscounted", self.store.unflushed_bytes)
        for start, count, _ in log.segments():
            end = min(start + count, log.flushed_end)
            if start < end:
                disk = self.files.durable(self._path(start))
                held = disk is not None and disk[: end - start] == self.content[start:end]
                check(held, "flushed bytes may be lost", start, end)
        self.durable = log.flushed_end

    def _path(self, start: int) -> str:
        return join("/data/t-0", segment_name(start))


class TruncationCrashTests(SynchronousTestCase):
    """The invariants of truncation, and that each sync is needed for them."""

    def test_random_lives_keep_every_invariant(self) -> None:
        """A truncated log ends at its position; after a crash it ends at an entry not before that."""
        cuts = crashes = 0
        for seed in range(FIRST, FIRST + HISTORIES):
            life = FollowerLife(seed)
            life.live(STEPS)
            cuts, crashes = cuts + life.cuts, crashes + life.crashes
        self.assertGreater(cuts, HISTORIES // 2)
        self.assertGreater(crashes, HISTORIES)

    def test_every_sync_is_needed(self) -> None:
        """Some life fails without it, so no sync is idle, and the invariants do find its absence."""
        sites: set[str] = set()
        for seed in range(15):
            life = FollowerLife(seed)
            life.live(STEPS)
            sites |= life.files.sites
        found = sorted(site for site in sites if "truncation." in site or "opening." in site)
        self.assertEqual(len(found), 4, found)
        self.assertEqual([site for site in found if not self._goes_wrong(site)], [])

    def _goes_wrong(self, site: str) -> bool:
        for seed in seeds_from(HINTS.get(site, 0), 3000):
            try:
                FollowerLife(seed, frozenset({site})).live(STEPS)
            except (Broken, LogdError):
                return True
        return False
