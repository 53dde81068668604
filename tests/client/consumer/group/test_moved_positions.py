"""Tests of members of a group whose positions are moved from outside while they read."""

from __future__ import annotations

from twisted.internet.defer import Deferred

from logd.coord.groups.group_changes import move_positions
from logd.coord.registries.offsets import OffsetRegistry
from logd.protocol.message import Message
from logd.topic import TopicPartition
from tests.client.groups import Application, ClientGroupTestCase


class MovedPositionsTests(ClientGroupTestCase):
    """A topic of one partition, and ``logd groups reset --force --to-earliest``."""

    def setUp(self) -> None:
        """Make the topic."""
        super().setUp()
        self.topic("one", 1, 50)

    def reset(self) -> None:
        """Move the positions to the start of the log, and let the group settle."""

        async def move() -> None:
            found = await OffsetRegistry(self.eye, "g").read_all("one")
            seen = {TopicPartition("one", number): offset for number, offset in found.items()}
            await move_positions(self.eye, "g", seen, dict.fromkeys(seen, 0))

        moving = Deferred.fromCoroutine(move())
        self.run_for(2.0)
        self.successResultOf(moving)

    def stored(self, app: Application) -> int:
        """Commit, and return the stored position."""
        committing = app.consumer.commit()
        self.run_for(0.05)
        self.successResultOf(committing)
        return int(self.committed(0, "one"))

    def test_a_message_from_before_does_not_count_for_those_that_were_not_handed_over_again(self) -> None:
        """The application still has it when reading begins again at the start, also in a topic made again."""
        app = Application(self, "one", commit="handled", commit_interval=0.0)
        self.run_for(0.5)
        (stream,) = app.streams
        for again in (self.reset, self.made_again):
            messages = [self.successResultOf(stream.get()) for _ in range(8)]
            stream.handled(messages[-2])
            self.assertEqual(self.stored(app), messages[-2].next_position)
            again()
            first = self.successResultOf(stream.get())
            self.assertEqual(first.id, 0)
            stream.handled(messages[-1])
            self.assertEqual(self.stored(app), 0)
            stream.handled(first)
            self.assertEqual(self.stored(app), first.next_position)

    def made_again(self) -> None:
        """Make the topic again, and let the group settle."""
        self.make_again("one", [Message(b"other-%d" % number) for number in range(50)])
        self.run_for(3.0)

    def test_nothing_is_kept_of_the_partitions_of_before(self) -> None:
        """A process that lives through many resets does not grow by them."""
        app = Application(self, "one", commit_interval=0.0).read()
        self.run_for(0.5)
        for count in range(1, 4):
            self.assertEqual(len(app.got), 50 * count)
            self.reset()
        state = app.streams[0].group_state
        self.assertEqual(list(state._marks), list(state._fetches.values()))
