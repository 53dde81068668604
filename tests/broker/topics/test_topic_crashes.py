"""Tests of topics that meet a loss of power, or a failing disk, at each step of their making, filling and deletion."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from random import Random

from twisted.internet.defer import Deferred
from twisted.internet.task import Clock

from logd.errors import WireError
from logd.protocol.requests.produce_ack import ProduceAck, ProducePart
from logd.testing.memory.disk import PowerLoss
from logd.testing.memory.files import MemoryFiles
from logd.topic import TopicEntry
from tests.broker.rig import BrokerTestCase
from tests.log.entries import plain

#: Random disks tried with many topics; LOGD_TEST_ROUNDS sets another number.
SEEDS = int(os.environ.get("LOGD_TEST_ROUNDS", "60"))
HELLO = plain(b"hello")
OTHER = plain(b"the other topic's")


class TopicCrashTests(BrokerTestCase):
    """Topic "old" is there with a message; "new" is made, filled, deleted, and made anew."""

    def begin(self, seed: int) -> None:
        """Put in a new disk, start a broker on it, and make the old topic."""
        self.leave()
        self.new_tree()
        self.files = MemoryFiles(Random(seed), now=self.clock.seconds)
        self.open()
        self.create("old")
        self.produce(self.connect(), "old", OTHER)
        #: The uuid that "new" was answered to have, "" when it was answered to be gone, None while it is not known.
        self.uuid: str | None = ""
        self.stored: bytes = b""

    def live(self) -> None:
        """Make, fill and delete the new topic, and note what was answered."""
        for _ in range(2):
            self.uuid = None
            entry = self.outcome(self.broker.administration.create("new", 2, {}))
            self.uuid = entry.uuid if isinstance(entry, TopicEntry) else "" if entry is None else None
            peer = self.connect()
            peer.send(ProduceAck(-1, 30_000, (ProducePart("new", 1, 0, True, HELLO),)))
            self.settle()
            if any(not part.error for answer in peer.answers() for part in answer.parts):
                self.stored = HELLO
            self.uuid, self.stored = None, b""
            if self.outcome(self.broker.administration.delete("new")) is None:
                self.uuid = ""
                self.assertIsNone(self.broker.topics.get("new"))

    def outcome(self, doing: Deferred[TopicEntry] | Deferred[None]) -> object:
        """Return the result, or an error that a client may get; after that it is unknown if the topic is there."""
        results: list[object] = []
        doing.addBoth(results.append)
        self.settle()
        (result,) = results
        error = getattr(result, "value", None)
        if isinstance(error, WireError | OSError):
            return error
        if isinstance(error, BaseException):
            raise error
        return result

    def check(self) -> None:
        """Check that the old topic is unchanged, and the new one is there or gone as was answered."""
        self.assertEqual(self.log_of("old").visible_end, len(OTHER))
        self.assertEqual(self.content("old"), OTHER)
        entry = self.broker.topics.get("new")
        if self.uuid is not None:
            self.assertEqual(entry.uuid if entry is not None else "", self.uuid)
        for number in (0, 1) if entry is not None else ():
            self.assertIsNone(self.log_of("new", number).offline)
        if self.stored:
            self.assertEqual(self.content("new", 1), HELLO)
        # Whatever is there: it can be deleted and made anew, and is empty then.
        if entry is not None:
            self.outcome(self.broker.administration.delete("new"))
        self.create("new", 2)
        self.assertEqual([self.log_of("new", number).end for number in (0, 1)], [0, 0])

    def restart(self, power_lost: bool) -> None:
        """Lose the process, or the power with it, and start again."""
        for peer in self.peers:
            peer.lost = True
        self.clock = Clock()
        self.clock.advance(1_600_000_000)
        self.files.fail_at = 0
        self.files.restart(power_lost)
        self.open()

    def test_topics_survive_power_cuts_at_each_step(self) -> None:
        """A kill of the process alone is tried as well."""
        survived = False
        steps = 0
        while not survived:
            steps += 1
            for seed in range(3):
                self.begin(1000 * steps + seed)
                self.files.power = steps
                try:
                    self.live()
                    # Work begun by a watch has no caller to fail, so its error is logged.
                    survived = not self.flushLoggedErrors(PowerLoss)
                except PowerLoss:
                    self.flushLoggedErrors(PowerLoss)
                self.restart(power_lost=seed > 0)
                self.check()
        self.assertGreater(steps, 50)

    def test_answered_creations_survive_power_cuts(self) -> None:
        """Eight topics are made and some deleted at once."""
        lost = 0
        for seed in range(SEEDS):
            self.begin(seed)
            random = Random(seed)
            answered: dict[str, object] = {}
            self.files.power = random.randrange(1, 80)
            try:
                self.live_with_many(random, answered)
            except PowerLoss:
                lost += 1
            self.flushLoggedErrors(PowerLoss)
            before = dict(answered)  # the broker is dead: later results are not answers
            self.restart(power_lost=seed % 3 > 0)
            for topic, told in before.items():
                entry = self.broker.topics.get(topic)
                if isinstance(told, TopicEntry):
                    self.assertEqual(entry, told, (seed, topic))
                    for number in told.partitions:
                        self.assertIsNone(self.log_of(topic, number).offline, (seed, topic))
                elif told is None:
                    self.assertIsNone(entry, (seed, topic))
            self.assertEqual(self.content("old"), OTHER)
        self.assertGreater(lost, SEEDS // 2)

    def live_with_many(self, random: Random, answered: dict[str, object]) -> None:
        """Have eight topics made and some of them deleted at once; ``answered`` gets the answer about each."""

        def note(topic: str) -> Callable[[object], None]:
            return lambda result: answered.update({topic: result})

        for number in range(8):
            self.broker.administration.create(f"t{number}", 1 + number % 2, {}).addBoth(note(f"t{number}"))
            for _ in range(random.randrange(4)):
                self.let_tree_answer()
                if self.reads.works:
                    self.reads.work()
        self.settle()
        for number in random.sample(range(8), 4):
            answered[f"t{number}"] = "unknown"
            self.broker.administration.delete(f"t{number}").addBoth(note(f"t{number}"))
        self.settle()

    def test_topics_survive_each_failing_call(self) -> None:
        """Each call to the disk fails in turn, for want of room or altogether; a restart makes all well."""
        for code in (errno.ENOSPC, errno.EIO):
            number = 0
            survived = False
            while not survived:
                number += 1
                self.begin(number)
                self.files.calls, self.files.fail_at = 0, number
                self.files.fail_with = lambda call, path, code=code: OSError(code, "it fails", path)  # type: ignore[misc]
                self.live()
                survived = self.files.calls < number
                self.restart(power_lost=number % 2 > 0)
                self.check()
            self.assertGreater(number, 60)
