"""Live one random life of a data directory: appends, rolls, flushes, retention, full disks, crashes and recoveries."""

from __future__ import annotations

import errno
from bisect import bisect_right
from itertools import accumulate
from random import Random

from attrs import define, field
from twisted.internet.task import Clock

from logd.config import LogSettings
from logd.errors import PartitionOffline, StorageFull, UnknownError
from logd.log.disk.names import folder_name, join, segment_name
from logd.log.partition import PartitionLog
from logd.log.store.log_store import LogStore
from logd.log.store.topics_file import TopicsFile
from logd.testing.memory.disk import PowerLoss
from logd.testing.memory.files import MemoryFiles
from logd.topic import TopicEntry
from tests.log.crashes.drawing import draw_sets
from tests.log.crashes.shadow import Broken, Shadow, check, check_durable, check_format
from tests.log.losses import Loss, adopt_gaps, everything, lose, repair
from tests.log.threads import Threads

ROOT = "/data"


@define(eq=False)
class History:
    """One store over one disk, driven by one seed."""

    seed: int
    skipped: frozenset[str] = frozenset()
    random: Random = field(init=False)
    files: MemoryFiles = field(init=False)
    clock: Clock = field(factory=Clock)
    threads: Threads = field(factory=Threads)
    store: LogStore = field(init=False)
    settings: LogSettings = field(init=False)
    shadows: dict[tuple[str, int], Shadow] = field(factory=dict)
    #: The topics that topics.json was last known to have, and those of a write that may have been lost.
    topics: set[str] = field(factory=set)
    topics_tried: set[str] | None = None
    reports: list[str] = field(factory=list)
    instance: str = ""
    #: Partitions that are being deleted.
    leaving: set[tuple[str, int]] = field(factory=set)
    crashes: int = 0
    #: True once a batch was appended.
    batches: bool = False
    #: The segment that is lost between two lives, and the number of losses so far.
    loss: Loss | None = None
    losses: int = 0

    def __attrs_post_init__(self) -> None:
        self.random = Random(self.seed)
        self.clock.advance(1_000_000.0)
        self.files = MemoryFiles(self.random, self.clock.seconds, syncs_whole=self.seed % 2 > 0)
        self.files.skipped |= self.skipped
        self.settings = LogSettings(
            segment_bytes=self.random.choice([50, 100, 300]),
            segment_ms=self.random.choice([2_000, 1 << 30]),
            index_bytes=self.random.choice([1, 40, 4096]),
            retention_ms=self.random.choice([-1, 3_000, 20_000]),
            retention_bytes=self.random.choice([-1, 100, 400]),
            flush_ms=self.random.choice([-1, 0, 1000]),
            flush_messages=self.random.choice([-1, 1, 5, 1000]),
        )
        self.files.mounts = {join(ROOT, folder_name("a", 1)): 2} if self.seed % 4 == 1 else {}

    def run(self, steps: int) -> None:
        """Live through ``steps``; raise Broken with the seed when an invariant does not hold."""
        try:
            self._live(steps)
        except Broken as error:
            raise Broken(f"seed {self.seed}: {error}") from error

    def _live(self, steps: int) -> None:
        self._reopen()
        actions = [self._append] * 8 + [self._work] * 6 + [self._deliver] * 6
        actions += [self._tick, self._tick, self._expire, self._checkpoint, self._write_topics]
        for _ in range(steps):
            try:
                draw = self.random.random()
                if draw < 0.03:
                    self.files.power = self.random.randint(1, 30)
                elif draw < 0.04:
                    self.files.power = 0
                    raise PowerLoss
                elif draw < 0.05:
                    self._stop_and_start()
                elif draw < 0.06:
                    self.files.room = self.random.randint(0, 60) if self.files.room is None else None
                elif draw < 0.07:
                    self.files.fail_syncs = 1
                elif draw < 0.075:
                    self._delete()
                elif draw < 0.08:
                    self._fail_appends()
                elif draw < 0.11:
                    self._delete_records()
                else:
                    self.random.choice(actions)()
                self._observe()
            except PowerLoss:
                self._crash()
        self._crash()

    # Events

    def _log(self) -> PartitionLog | None:
        topic, partition = self.random.choice([("a", 0), ("a", 1), ("b-c", 0)])
        try:
            log = self.store.create(topic, partition, self.settings)
        except StorageFull:
            return None
        except UnknownError:
            check((topic, partition) in self.leaving, "a partition cannot be made", topic, partition)
            return None
        self.shadows.setdefault((topic, partition), Shadow())
        return log

    def _append(self) -> None:
        log = self._log()
        if log is None:
            return
        shadow = self.shadows[log.topic, log.partition]
        drawn = draw_sets(self.random, int(self.clock.seconds() * 1000), self._may_append_batches)
        sets, newest = drawn.sets, drawn.newest
        self.batches = self.batches or drawn.has_batches
        ends = [*accumulate(map(len, sets), initial=log.end)]
        was_offline = log.offline is not None
        could_differ, shadow.may_differ = shadow.may_differ, True
        try:
            first = log.append(sets, len(sets), newest)  # the power may go in the middle of it
        except StorageFull:
            shadow.refused_at = log.end
            return
        except PartitionOffline:
            # It was offline, or became so by this append: then bytes that it wrote may be found at the next start.
            shadow.may_differ = could_differ or not was_offline
            if not was_offline:
                shadow.refused_at = log.end
            return
        shadow.may_differ = could_differ
        check(first == len(shadow.content), "an append is not at the end", first, len(shadow.content))
        shadow.content += b"".join(sets)
        shadow.entries += ends[:-1]
        if self.random.random() < 0.2:
            self.store.flusher.due_now(log)

    def _may_append_batches(self) -> bool:
        """Return whether the directory has the format for batches; begin to raise it otherwise, as a broker does."""
        if not self.store.batch_format.ready:
            self.store.batch_format.make_ready(lambda error: None)
        return self.store.batch_format.ready

    def _work(self) -> None:
        if self.threads.works:
            self.threads.work(self.random.randrange(min(3, len(self.threads.works))))

    def _deliver(self) -> None:
        if self.threads.outcomes:
            self.threads.deliver(self.random.randrange(len(self.threads.outcomes)))

    def _tick(self) -> None:
        self.clock.advance(self.random.choice([0.001, 1, 5]))

    def _expire(self) -> None:
        self.store.expire()

    def _checkpoint(self) -> None:
        self.store.write_checkpoints()

    def _write_topics(self) -> None:
        if self.files.room is not None or any(self.files.errors.values()):
            return
        new = {f"t{self.random.randrange(100)}" for _ in range(self.random.randrange(4))}
        self.topics_tried = new
        TopicsFile(self.files, ROOT).write({name: TopicEntry("u", {0: (0,)}) for name in new})
        self.topics, self.topics_tried = new, None

    def _fail_appends(self) -> None:
        """Let the next append fail half-way, and perhaps let its removal fail too."""
        for call in ("append", "truncate")[: self.random.randint(1, 2)]:
            self.files.errors[call] = [OSError(errno.EIO, "input/output error")]

    def _delete(self) -> None:
        topic = self.random.choice(["a", "b-c"])
        keys = [(log.topic, log.partition) for log in self.store.logs() if log.topic == topic]
        for key in keys:
            # Until it is done, a crash may leave the old partition or none.
            self.shadows[key] = Shadow(may_differ=True)
            self.leaving.add(key)

        def done(error: BaseException | None) -> None:
            check(error is None, "a topic cannot be deleted", error)
            for key in keys:
                self.shadows[key] = Shadow()
                self.leaving.discard(key)

        self.store.delete(topic, done)

    def _delete_records(self) -> None:
        log = self.random.choice([None, *(log for log in self.store.logs() if log.offline is None)])
        if log is None:
            return
        shadow = self.shadows[log.topic, log.partition]
        position = self.random.randint(log.start, log.visible_end)
        self.store.delete_before(log, position, shadow.deletion(position, log.start, log.end))

    def _stop_and_start(self) -> None:
        done: list[bool] = []
        self.files.room = None
        self.files.fail_syncs = 0
        self.files.errors.clear()
        self.store.flush_all(lambda: self.store.finish_upkeep(lambda: done.append(True)))
        self.threads.settle()
        check(done == [True], "a clean stop does not come to its end")
        self._observe()
        clean = [log for log in self.store.logs() if log.offline is None]
        ends = {(log.topic, log.partition): (log.start, log.end) for log in clean}
        self.store.close()
        check(self.files.open_handles == 0, "files are left open", self.files.open_handles)
        self._lose(0.2)
        self._reopen()
        for key, (start, end) in ends.items():
            log = self.store.log(*key)
            check(log is not None and (log.start, log.end) == (start, end), "a clean stop changes", key, start, end)

    def _crash(self) -> None:
        self.crashes += 1
        self.threads.works.clear()
        self.threads.outcomes.clear()
        self.leaving.clear()
        self.files.errors.clear()
        while True:
            self.files.restart(power_lost=self.random.random() < 0.7)
            self._lose(0.1)
            if self.random.random() < 0.2:
                self.files.power = self.random.randint(1, 20)
            try:
                self._reopen()
                self._observe()
            except PowerLoss:
                continue  # the power went during the recovery
            self.files.power = None
            return

    # Lost segments

    def _lose(self, chance: float) -> None:
        if self.random.random() < chance and self.shadows:
            key = self.random.choice(sorted(self.shadows))
            shadow = self.shadows[key]
            if not shadow.may_differ and shadow.refused_at < 0:
                self.loss = lose(self.files, self.random, join(ROOT, folder_name(*key)), shadow.visible)

    def _open(self) -> None:
        """Open the store; where bytes were lost, check that it notices, and have them repaired."""
        loss, self.loss = self.loss, None
        if loss is None:
            self.store.open()
            return
        self.losses += 1
        self.files.power = None  # a repair that a crash ends has tests of its own
        before = everything(self.files, loss.folder)
        self.store.open()
        check(everything(self.files, loss.folder) == before, "a folder was changed", loss)
        (log,) = [log for log in self.store.logs() if log.folder == loss.folder]
        check(log.offline is not None, "a partition is served though bytes are lost", loss)
        text = str(log.offline)
        # An index that ends just where the file does now speaks for the next file.
        check(loss.name in text or segment_name(loss.lost_from) in text, "the file is not named", loss, text)
        if loss.unreadable or self.random.random() < 0.3:
            loss.put_back(self.files)
        error = repair(self.store, self.threads, log)
        check(error is None, "a partition cannot be served again", loss, error)
        again = self.store.log(log.topic, log.partition)
        check(again is not None and again.offline is None, "a partition is still offline", loss)
        assert again is not None
        adopt_gaps(self.shadows[log.topic, log.partition], again.start, self._read(again), loss)
        self.reports.clear()

    # Invariants

    def _reopen(self) -> None:
        self.store = LogStore(
            ROOT, self.files, self.clock, self.threads, self.settings, report=self._report, open_files_limit=2
        )
        self._open()
        if (groups := self.store.flusher.groups) is not None:
            groups.least = 2  # there are three partitions
        self._check_identity()
        self._check_topics()
        found = {(log.topic, log.partition): log for log in self.store.logs()}
        for key, shadow in self.shadows.items():
            log = found.get(key)
            if log is None:
                check(shadow.visible == 0, "a partition is gone", key, shadow.visible)
                shadow.__init__()  # type: ignore[misc]  # begin anew
                continue
            check(log.offline is None, "a partition is offline", key, log.offline)
            # Of a partition of which nothing was visible yet, a crash may keep the second segment without the first.
            may_move = shadow.may_differ or shadow.visible == shadow.start
            check(
                log.start <= max(shadow.start, shadow.asked) or may_move,
                "the start moved",
                key,
                log.start,
                shadow.start,
            )
            # A disk without room for a checkpoint forgets it: the log begins with its first segment again.
            forgotten = shadow.may_differ or any("was emptied on a full disk" in text for text in self.reports)
            check(log.start >= shadow.promised or forgotten, "what was deleted is back", key, shadow.promised)
            check(log.end >= shadow.visible, "what was visible is gone", key, log.end, shadow.visible)
            check(log.visible_end == log.end, "a recovered log is not visible", key)
            content = self._read(log)
            known = bytes(shadow.content[log.start : log.end])
            if not shadow.may_differ and shadow.refused_at < 0:
                check(content == known, "the content changed", key, log.start, log.end, len(shadow.content))
            else:
                sure = max(0, shadow.visible - log.start)
                check(content[:sure] == known[:sure], "visible content changed", key, log.start, shadow.visible)
                self._adopt(shadow, log, content)
            shadow.cut(log.end)
            shadow.found(log.start)
            self._check_boundaries(log, shadow)

    def _adopt(self, shadow: Shadow, log: PartitionLog, content: bytes) -> None:
        """Take over the entries that are behind the visible end."""
        shadow.content[log.start :] = bytes(max(0, log.start - len(shadow.content))) + content
        shadow.entries = [at for at in shadow.entries if at < log.start]
        at = log.start
        while at < log.end:
            shadow.entries.append(at)
            at += 4 + int.from_bytes(shadow.content[at : at + 4], "big")
        check(at == log.end, "entries do not chain up to the end", at, log.end)

    def _check_identity(self) -> None:
        self.instance = self.instance or self.store.instance
        if self.topics or any(shadow.visible for shadow in self.shadows.values()):
            check(self.instance == self.store.instance, "the directory is another")
        self.instance = self.store.instance

    def _check_topics(self) -> None:
        found = set(TopicsFile(self.files, ROOT).read())
        check(found == self.topics or found == self.topics_tried, "topics changed", found, self.topics)
        self.topics, self.topics_tried = found, None

    def _check_boundaries(self, log: PartitionLog, shadow: Shadow) -> None:
        for _ in range(3):
            if log.start < log.end:
                offset = self.random.randrange(log.start, log.end)
                expected = shadow.entries[bisect_right(shadow.entries, offset) - 1]
                found = log.find_boundary(offset)
                check(found == expected, "a wrong boundary", offset, found, expected)

    def _observe(self) -> None:
        """Compare every log with its shadow, and its visible bytes with those that the disk has for certain."""
        for log in self.store.logs():
            if log.offline is not None:
                continue
            shadow = self.shadows.setdefault((log.topic, log.partition), Shadow())
            check(log.visible_end >= shadow.visible, "the visible end moved back", log.visible_end, shadow.visible)
            check(log.end == len(shadow.content) or shadow.may_differ, "the end is elsewhere", log.end)
            check(log.start >= shadow.start, "the start moved back", log.start, shadow.start)
            if log.visible_end > shadow.refused_at:
                shadow.refused_at = -1
            shadow.start, shadow.visible = log.start, log.visible_end
            if log.visible_end > shadow.durable:
                check_durable(self.files, log, max(shadow.durable, log.start), log.visible_end, shadow)
                shadow.durable = log.visible_end
        check_format(self.files, ROOT, self.batches)
        check(self.store.unflushed_bytes >= 0, "unflushed bytes are miscounted", self.store.unflushed_bytes)
        # The format is raised in place, since meta holds the lock: a crash can tear it, and its copy heals it.
        reports = [text for text in self.reports if not text.endswith("it is rewritten from meta.copy")]
        wrong = [text for text in reports if "damaged" in text or "lost:" in text or "bytes are lost" in text]
        check(not wrong, "harm is reported", wrong)

    def _read(self, log: PartitionLog) -> bytes:
        pieces = []
        offset = log.start
        while offset < log.end:
            found = log.read(offset, self.random.choice([7, 50, 1000]))
            check(found is not None, "nothing to read", offset, log.end)
            assert found is not None
            pieces.append(found.file.read_at(found.file_position, found.count))
            check(len(pieces[-1]) == found.count > 0, "a range is shorter than promised", offset)
            offset += found.count
            found.close()
        return b"".join(pieces)

    def _report(self, format: str, **fields: object) -> None:  # noqa: A002
        self.reports.append(format.format(**fields))
