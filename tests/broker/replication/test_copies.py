"""Tests of waits for a number of copies."""

from __future__ import annotations

from attrs import define, field
from twisted.trial.unittest import SynchronousTestCase
from zope.interface import implementer

from logd.broker.replication.copies import CopyWaiters
from logd.errors import NotLeader
from logd.interfaces import IFlushListener


@implementer(IFlushListener)
@define(eq=False)
class Listener:
    """Notes what it is told."""

    told: list[object] = field(factory=list)

    def visible(self, end: int) -> None:
        """See IFlushListener."""
        self.told.append(end)

    def failed(self, error: BaseException) -> None:
        """See IFlushListener."""
        self.told.append(type(error))


class CopyWaitersTests(SynchronousTestCase):
    """CopyWaiters."""

    def setUp(self) -> None:
        """Make one."""
        self.raised: list[str] = []
        self.waiters = CopyWaiters(self.raised.append)

    def test_at_once(self) -> None:
        """If there are enough copies already, there is nothing to wait for."""
        listener = Listener()
        self.assertIsNone(self.waiters.wait(2, 10, [10, 5, 10], listener))
        self.assertEqual(listener.told, [10])

    def test_each_waits_for_its_own_number(self) -> None:
        """The second greatest end decides for two copies, the third for three."""
        two, three = Listener(), Listener()
        self.assertIsNotNone(self.waiters.wait(2, 10, [10, 0], two))
        self.assertIsNotNone(self.waiters.wait(3, 10, [10, 0], three))
        self.waiters.moved(lambda: [10, 9])
        self.assertEqual((two.told, three.told), ([], []))
        self.waiters.moved(lambda: [12, 11, 9])
        self.assertEqual((two.told, three.told), ([11], []))
        self.waiters.moved(lambda: [12, 11, 10])
        self.assertEqual((two.told, three.told), ([11], [10]))
        self.waiters.moved(lambda: self.fail("nobody waits"))

    def test_a_wait_that_is_cancelled(self) -> None:
        """Nobody is called, and nothing is kept."""
        listener = Listener()
        wait = self.waiters.wait(2, 10, [10], listener)
        assert wait is not None
        wait.cancel()
        self.waiters.moved(lambda: [10, 10])
        self.waiters.fail(NotLeader("it leads no longer"))
        self.assertEqual(listener.told, [])

    def test_the_end_of_the_leadership(self) -> None:
        """All fail."""
        two, three = Listener(), Listener()
        self.waiters.wait(2, 10, [10], two)
        self.waiters.wait(3, 10, [10], three)
        self.waiters.fail(NotLeader("it leads no longer"))
        self.assertEqual((two.told, three.told), ([NotLeader], [NotLeader]))
