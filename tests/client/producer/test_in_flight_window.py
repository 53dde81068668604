"""Tests of the in-flight window: order and completeness under any schedule of refusals, losses and answers."""

from __future__ import annotations

from attrs import define, field
from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from logd.client.producer.in_flight_window import InFlightWindow

ACCEPT, REFUSE, REFUSE_FOR_GOOD, ACCEPT_BUT_SAY_NO, BROKEN = range(5)


@define
class Wire:
    """One connection to the model broker: what is on its way there, and answers on their way back."""

    there: list[tuple[int, bool]] = field(factory=list)
    back: list[tuple[int, int]] = field(factory=list)
    broken: bool = False
    lost: bool = False


@define
class Model:
    """A broker that keeps the rule of docs/protocol.md, a network that loses connections, and the client's loop."""

    delivery: InFlightWindow[int]
    log: list[int] = field(factory=list)
    wires: list[Wire] = field(factory=lambda: [Wire()])
    put: int = 0
    acknowledged: set[int] = field(factory=set)
    given_up: set[int] = field(factory=set)

    def add(self) -> None:
        """The application has another item."""
        self.delivery.put(self.put)
        self.put += 1

    def send(self) -> bool:
        """The client sends what it may."""
        taken = self.delivery.take()
        if taken is None:
            return False
        self.wires[-1].there.append(taken)
        return True

    def process(self, wire: Wire, outcome: int) -> None:
        """The broker reads the oldest request of a connection, which may be lost already on the client's side."""
        item, restart = wire.there.pop(0)
        if restart:
            wire.broken = False
        if wire.broken:
            wire.back.append((item, BROKEN))
            return
        if outcome in (ACCEPT, ACCEPT_BUT_SAY_NO):
            self.log.append(item)
        else:
            wire.broken = True
        wire.back.append((item, outcome))

    def hear(self, which: int) -> None:
        """The client gets one of the answers under way; they may overtake each other."""
        back = self.wires[-1].back
        item, outcome = back.pop(which % len(back))
        if outcome == ACCEPT:
            self.delivery.acknowledged(item)
            self.acknowledged.add(item)
        elif outcome == REFUSE_FOR_GOOD:
            self.delivery.refused_for_good(item)
            self.given_up.add(item)
        else:
            self.delivery.refused(item)

    def lose(self) -> None:
        """The connection breaks; what the broker has in its buffers it may still read."""
        wire = self.wires[-1]
        wire.lost = True
        for item in [item for item, _ in wire.back] + [item for item, _ in wire.there]:
            self.delivery.lost(item)
        self.wires.append(Wire())

    def step(self, action: int, which: int) -> None:
        """One thing happens."""
        kind = action % 8
        wire = self.wires[which % len(self.wires)] if kind == 6 else self.wires[-1]
        if kind in (0, 1):
            self.add()
        elif kind in (2, 3):
            self.send()
        elif kind in (4, 6) and wire.there:
            self.process(wire, which % 7 if which % 7 < BROKEN else ACCEPT)
        elif kind == 5 and wire.back:
            self.hear(which)
        elif kind == 7 and which % 3 == 0:
            self.lose()

    def finish(self) -> None:
        """From here on all goes well."""
        for _ in range(20 * self.put + 20):
            if not len(self.delivery):
                return
            progress = self.send()
            wire = self.wires[-1]
            while wire.there:
                self.process(wire, ACCEPT)
                progress = True
            if wire.back:
                self.hear(0)
                progress = True
            assert progress, "the delivery is stuck"
        raise AssertionError("the delivery goes round in circles")


class DeliveryTests(SynchronousTestCase):
    """InFlightWindow."""

    @settings(deadline=None, max_examples=400)
    @given(st.lists(st.tuples(st.integers(0, 7), st.integers(0, 20)), max_size=120), st.integers(1, 5))
    def test_order_and_completeness(self, schedule: list[tuple[int, int]], max_in_flight: int) -> None:
        """First occurrences arrive in order, nothing acknowledged is missing, and everything comes to an end."""
        model = Model(InFlightWindow(max_in_flight))
        for action, which in schedule:
            model.step(action, which)
        model.finish()
        firsts = list(dict.fromkeys(model.log))
        self.assertEqual(firsts, sorted(firsts))
        self.assertLessEqual(model.acknowledged, set(model.log))
        self.assertEqual(model.acknowledged | model.given_up, set(range(model.put)))

    def test_pipelines_up_to_its_bound(self) -> None:
        """As many items as allowed are in flight at a time, and none is a restart while all goes well."""
        delivery: InFlightWindow[str] = InFlightWindow(2)
        for item in "abc":
            delivery.put(item)
        self.assertEqual([delivery.take(), delivery.take(), delivery.take()], [("a", False), ("b", False), None])
        delivery.acknowledged("a")
        self.assertEqual(delivery.take(), ("c", False))

    def test_restarts_from_the_refused_one(self) -> None:
        """After a refusal it waits for all answers, then goes on from the refused one, restarting."""
        delivery: InFlightWindow[str] = InFlightWindow(3)
        for item in "abcd":
            delivery.put(item)
        for _ in "abc":
            delivery.take()
        delivery.refused("b")
        self.assertIsNone(delivery.take())
        delivery.refused("c")
        self.assertTrue(delivery.draining)
        delivery.acknowledged("a")
        self.assertEqual([delivery.take() for _ in "bcd"], [("b", True), ("c", False), ("d", False)])

    def test_goes_on_without_one_refused_for_good(self) -> None:
        """What was behind an item that nobody will ever take goes on in order, restarting."""
        delivery: InFlightWindow[str] = InFlightWindow(3)
        for item in "abc":
            delivery.put(item)
        delivery.take()
        delivery.take()
        delivery.refused_for_good("a")
        delivery.refused("b")
        self.assertEqual([delivery.take(), delivery.take()], [("b", True), ("c", False)])

    def test_restarts_behind_one_refused_for_good(self) -> None:
        """Even with nothing in flight behind it, the next item tells the broker that the refused one is dealt with."""
        delivery: InFlightWindow[str] = InFlightWindow(3)
        delivery.put("a")
        delivery.take()
        delivery.refused_for_good("a")
        delivery.put("b")
        self.assertEqual(delivery.take(), ("b", True))

    def test_drops_only_what_waits(self) -> None:
        """An item in flight cannot be dropped; one that waits can."""
        delivery: InFlightWindow[str] = InFlightWindow(1)
        delivery.put("a")
        delivery.put("b")
        delivery.take()
        self.assertEqual([delivery.drop("a"), delivery.drop("b"), len(delivery)], [False, True, 1])
        self.assertFalse(delivery.idle)
