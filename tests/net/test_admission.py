"""Tests of how many connections a server admits, in all and from one address."""

from __future__ import annotations

from attrs import define
from twisted.trial.unittest import SynchronousTestCase

from logd.net.limits.admission import AdmissionLimits, OpenConnections
from tests.net.sessions import Counters


@define(eq=False)
class Caller:
    """A connection."""

    address: str = ""
    replaceable: bool = False
    closed: bool = False
    peer: str = "10.0.0.1:40000"

    def close(self, reason: str = "", *, drain: bool = True) -> None:
        """Note it."""
        self.closed = not drain


class AdmissionTests(SynchronousTestCase):
    """No more than three connections, and no more than two of one address."""

    def setUp(self) -> None:
        """Nobody is connected."""
        self.counters = Counters()
        self.open: OpenConnections[Caller] = OpenConnections(AdmissionLimits(3, 2), self.counters)

    def test_too_many(self) -> None:
        """The fourth is refused, and one is admitted again once another has left."""
        callers = [Caller() for _ in range(3)]
        self.assertEqual([self.open.admit(each) for each in callers], [True] * 3)
        self.assertFalse(self.open.admit(Caller()))
        self.open.leave(callers[1])
        self.open.leave(callers[1])
        newcomer = Caller()
        self.assertTrue(self.open.admit(newcomer))
        self.assertEqual((list(self.open), len(self.open)), ([callers[0], callers[2], newcomer], 3))
        self.assertEqual(self.counters.connections_refused, 1)

    def test_replaceable(self) -> None:
        """The oldest that is replaceable makes room for a newcomer."""
        callers = [Caller(), Caller(replaceable=True), Caller(replaceable=True)]
        for each in callers:
            self.open.admit(each)
        self.assertTrue(self.open.admit(Caller()))
        self.assertEqual([each.closed for each in callers], [False, True, False])
        self.assertEqual((len(self.open), self.counters.connections_refused), (3, 1))

    def test_one_address(self) -> None:
        """The third of one address is refused and costs nobody a place; local sockets have no address."""
        first, second = Caller("h", True), Caller("h", True)
        self.assertEqual([self.open.admit(each) for each in (first, second, Caller("h"))], [True, True, False])
        self.assertEqual((first.closed, len(self.open)), (False, 2))
        self.open.leave(first)
        self.assertTrue(self.open.admit(Caller("h")))
        local: OpenConnections[Caller] = OpenConnections(AdmissionLimits(None, 1), self.counters)
        self.assertEqual([local.admit(Caller()) for _ in range(9)], [True] * 9)

    def test_refused_one_leaves(self) -> None:
        """A connection that was refused takes no place away when it is gone."""
        admitted = [Caller("h"), Caller("h")]
        refused = Caller("h")
        for each in (*admitted, refused):
            self.open.admit(each)
        self.open.leave(refused)
        self.assertFalse(self.open.admit(Caller("h")))
