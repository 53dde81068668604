"""What crosses between kazoo's thread and the reactor's: the queue, and the wakeup the other way."""

from __future__ import annotations

import select
from functools import partial
from typing import cast

from twisted.trial.unittest import SynchronousTestCase

from logd.coord.zookeeper.reactor_queue import ReactorQueue, ThreadReactor
from logd.coord.zookeeper.wakeup import Wakeup
from tests.coord.zookeeper.doubles import Turns


class ReactorQueueTests(SynchronousTestCase):
    """Orders."""

    def setUp(self) -> None:
        """Make a queue."""
        self.turns = Turns()
        self.queue = ReactorQueue(cast(ThreadReactor, self.turns))
        self.done: list[str] = []

    def test_order(self) -> None:
        """Nothing runs when it is put; all runs in order."""
        for name in "abc":
            self.queue.put(partial(self.done.append, name))
        self.assertEqual(self.done, [])
        self.turns.turn()
        self.assertEqual(self.done, ["a", "b", "c"])

    def test_chain(self) -> None:
        """What is put by what runs follows at once, before what was put earlier: it is the same answer."""
        self.queue.put(lambda: self.queue.put(lambda: self.done.append("create")))
        self.queue.put(lambda: self.done.append("get"))
        self.turns.turn()
        self.assertEqual(self.done, ["create", "get"])

    def test_later(self) -> None:
        """Who sends from inside an answer is not answered before he is done."""

        def answer() -> None:
            with self.queue.later():
                self.queue.put(lambda: self.done.append("answered"))
            self.done.append("sent")

        self.queue.put(answer)
        self.turns.turn()
        self.turns.turn()
        self.assertEqual(self.done, ["sent", "answered"])

    def test_failure(self) -> None:
        """One that raises does not leave the queue running at once."""

        def fail() -> None:
            raise ValueError

        self.queue.put(fail)
        self.assertRaises(ValueError, self.turns.turn)
        self.queue.put(lambda: self.done.append("a"))
        self.assertEqual(self.done, [])


class WakeupTests(SynchronousTestCase):
    """The counting wakeup."""

    def setUp(self) -> None:
        """Make one."""
        self.wakeup = Wakeup()
        self.addCleanup(self.wakeup.close)

    def readable(self) -> bool:
        """Whether a select would wake."""
        return bool(select.select([self.wakeup.waiting], [], [], 0)[0])

    def test_counts(self) -> None:
        """It is readable exactly while there is something to take."""
        self.assertFalse(self.readable())
        self.wakeup.waker.send(b"\0")
        self.wakeup.waker.send(b"\0")
        self.wakeup.waiting.recv(1)
        self.assertTrue(self.readable())
        self.wakeup.waiting.recv(1)
        self.assertFalse(self.readable())
        self.assertRaises(BlockingIOError, self.wakeup.waiting.recv, 1)

    def test_never_blocks(self) -> None:
        """A hundred thousand wake-ups that nobody takes do not block, as so many bytes in a socket would."""
        for _ in range(100_000):
            self.wakeup.waker.send(b"\0")
        self.assertTrue(self.readable())
