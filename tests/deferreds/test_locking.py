"""Tests of logd.deferreds.locking: thousands of waiters, their order, and what they cancel."""

from __future__ import annotations

from twisted.internet.defer import Deferred
from twisted.trial.unittest import SynchronousTestCase

from logd.deferreds.locking import QueueLock, QueueSemaphore

#: Waiters whose nested releases would exceed Python's stack many times.
MANY = 5000


class QueueLockTests(SynchronousTestCase):
    """A lock with many waiters."""

    def setUp(self) -> None:
        """Make a lock that is held, and note who got it."""
        self.lock = QueueLock()
        self.lock.acquire()
        self.held: list[object] = []

    async def hold(self, name: object, until: Deferred[None] | None = None) -> None:
        """Hold the lock for a moment, or until something happens."""
        async with self.lock:
            self.held.append(name)
            if until is not None:
                await until

    def start(self, name: object, until: Deferred[None] | None = None) -> Deferred[None]:
        """Let a caller wait for the lock."""
        return Deferred.fromCoroutine(self.hold(name, until))

    def test_thousands_hold_it_for_a_moment(self) -> None:
        """Each gets it, in the order in which they came."""
        waiting = [self.start(number) for number in range(MANY)]
        self.lock.release()
        for each in waiting:
            self.successResultOf(each)
        self.assertEqual(self.held, list(range(MANY)))
        self.assertFalse(self.lock.locked)

    def test_one_that_holds_on_keeps_the_others_waiting(self) -> None:
        """They go on once it lets go."""
        until: Deferred[None] = Deferred()
        first, second, third = self.start(1), self.start(2, until), self.start(3)
        self.lock.release()
        self.successResultOf(first)
        self.assertNoResult(second)
        self.assertNoResult(third)
        self.assertTrue(self.lock.locked)
        until.callback(None)
        self.successResultOf(third)
        self.assertEqual(self.held, [1, 2, 3])

    def test_a_newcomer_waits_behind_those_who_came_before(self) -> None:
        """Also when it comes while the lock is handed on."""
        first = self.start(1)
        first.addCallback(lambda _: self.late.append(self.start("late")))
        self.late: list[Deferred[None]] = []
        second = self.start(2)
        self.lock.release()
        self.successResultOf(second)
        self.successResultOf(self.late[0])
        self.assertEqual(self.held, [1, 2, "late"])

    def test_a_waiter_may_give_up(self) -> None:
        """The next one gets its turn."""
        first, second = self.start(1), self.start(2)
        first.cancel()
        self.failureResultOf(first)
        self.lock.release()
        self.successResultOf(second)
        self.assertEqual(self.held, [2])


class QueueSemaphoreTests(SynchronousTestCase):
    """A semaphore of several tokens."""

    def test_no_more_hold_it_than_there_are_tokens(self) -> None:
        """A token that was released is given to the next, and the last ones are there again."""
        semaphore = QueueSemaphore(2)
        asked = [semaphore.acquire() for _ in range(4)]
        self.assertEqual([each.called for each in asked], [True, True, False, False])
        semaphore.release()
        self.assertEqual([each.called for each in asked], [True, True, True, False])
        for _ in range(3):
            semaphore.release()
        self.assertEqual((semaphore.tokens, semaphore.waiting), (2, []))

    def test_a_token_that_nobody_holds_cannot_be_released(self) -> None:
        """One token too many would let two in where one may be."""
        semaphore = QueueSemaphore(1)
        semaphore.acquire()
        semaphore.release()
        self.assertRaises(AssertionError, semaphore.release)
