"""The bound of the memory that members of groups take together."""

from __future__ import annotations

from twisted.logger import globalLogPublisher

from logd.broker.kafka.groups.members import GroupProtocol, SyncAnswer
from tests.broker.kafka.groups.states import GroupStateTestCase
from tests.broker.rig import Events


class MemoryTests(GroupStateTestCase):
    """The memory of members has a bound."""

    memory_limit = 20_000

    def test_a_member_that_does_not_fit(self) -> None:
        """It is refused; the others go on."""
        (first,) = self.players({})
        second = self.player(protocols=(GroupProtocol("range", bytes(20_000)),))
        second.join()
        self.assertEqual(second.answer.error, 81)
        first.join(protocols=(GroupProtocol("range", bytes(20_000)),))
        self.assertEqual(first.answer.error, 81)
        self.assertEqual(self.group.heartbeat(first.id, None, 7), 0)

    def test_assignments_that_do_not_fit(self) -> None:
        """The leader is told to wait and to try again, as Java's client does after COORDINATOR_NOT_AVAILABLE."""
        events = Events()
        globalLogPublisher.addObserver(events)
        self.addCleanup(globalLogPublisher.removeObserver, events)
        player = self.player()
        player.join()
        self.clock.advance(3.0)
        for _ in range(2):
            player.sync({player.id: bytes(20_000)})
            self.assertEqual(player.syncs.pop(), SyncAnswer(15))
        self.assertEqual(len(events.warnings("kafka.groups.bytes")), 1)
        player.join()
        self.assertEqual((player.answer.error, player.answer.generation), (0, self.group.generation))
        player.sync({player.id: b"fits"})
        self.assertEqual(player.syncs.pop(), SyncAnswer(0, b"fits"))
