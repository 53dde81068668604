"""Tests of the number of connections that a server admits, in all and from one address."""

from __future__ import annotations

from attrs import define
from twisted.trial.unittest import SynchronousTestCase

from logd.net.limits.connection_quotas import AdmissionLimits, OpenConnections
from tests.net.sessions import Counters


@define(eq=False)
class Caller:
    """A stand-in for a connection."""

    address: str = ""
    replaceable: bool = False
    closed: bool = False
    peer: str = "10.0.0.1:40000"

    def close(self, reason: str = "", *, drain: bool = True) -> None:
        """Note a close without a drain."""
        self.closed = not drain


class AdmissionTests(SynchronousTestCase):
    """A server of at most three connections, two of them from one address."""

    def setUp(self) -> None:
        """Make a server without connections."""
        self.counters = Counters()
        self.open: OpenConnections[Caller] = OpenConnections(AdmissionLimits(3, 2), self.counters)

    def test_connections_beyond_the_limit_are_refused(self) -> None:
        """A place is free once another connection has left, and only once."""
        callers = [Caller() for _ in range(3)]
        self.assertEqual([self.open.admit(each) for each in callers], [True] * 3)
        self.assertFalse(self.open.admit(Caller()))
        self.open.leave(callers[1])
        self.open.leave(callers[1])
        newcomer = Caller()
        self.assertTrue(self.open.admit(newcomer))
        self.assertEqual((list(self.open), len(self.open)), ([callers[0], callers[2], newcomer], 3))
        self.assertEqual(self.counters.connections_refused, 1)

    def test_the_oldest_replaceable_one_makes_room(self) -> None:
        """Connections that are in use keep their places."""
        callers = [Caller(), Caller(replaceable=True), Caller(replaceable=True)]
        for each in callers:
            self.open.admit(each)
        self.assertTrue(self.open.admit(Caller()))
        self.assertEqual([each.closed for each in callers], [False, True, False])
        self.assertEqual((len(self.open), self.counters.connections_refused), (3, 1))

    def test_an_address_has_its_own_limit(self) -> None:
        """The refused connection takes no place; local sockets have no address, and no such limit."""
        first, second = Caller("h", True), Caller("h", True)
        self.assertEqual([self.open.admit(each) for each in (first, second, Caller("h"))], [True, True, False])
        self.assertEqual((first.closed, len(self.open)), (False, 2))
        self.open.leave(first)
        self.assertTrue(self.open.admit(Caller("h")))
        local: OpenConnections[Caller] = OpenConnections(AdmissionLimits(None, 1), self.counters)
        self.assertEqual([local.admit(Caller()) for _ in range(9)], [True] * 9)

    def test_a_refused_connection_frees_no_place(self) -> None:
        """The place that it never had must not be given back."""
        admitted = [Caller("h"), Caller("h")]
        refused = Caller("h")
        for each in (*admitted, refused):
            self.open.admit(each)
        self.open.leave(refused)
        self.assertFalse(self.open.admit(Caller("h")))
