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
    """A connection to the model broker: requests on their way there, and answers on their way back."""

    there: list[tuple[int, bool]] = field(factory=list)
    back: list[tuple[int, int]] = field(factory=list)
    broken: bool = False
    lost: bool = False


@define
class Model:
    """A broker that keeps the rule of docs/protocol.md, a network that loses connections, and the client's loop."""

    window: InFlightWindow[int]
    log: list[int] = field(factory=list)
    wires: list[Wire] = field(factory=lambda: [Wire()])
    put: int = 0
    acknowledged: set[int] = field(factory=set)
    given_up: set[int] = field(factory=set)

    def add(self) -> None:
        """Put another item, as the application does."""
        self.window.put(self.put)
        self.put += 1

    def send(self) -> bool:
        """Send an item if the window allows one; return whether it did."""
        taken = self.window.take()
        if taken is None:
            return False
        self.wires[-1].there.append(taken)
        return True

    def process(self, wire: Wire, outcome: int) -> None:
        """Read the oldest request of a connection, which the client may have lost already."""
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
        """Give the client one of the answers under way, which may overtake each other."""
        back = self.wires[-1].back
        item, outcome = back.pop(which % len(back))
        if outcome == ACCEPT:
            self.window.acknowledged(item)
            self.acknowledged.add(item)
        elif outcome == REFUSE_FOR_GOOD:
            self.window.refused_for_good(item)
            self.given_up.add(item)
        else:
            self.window.refused(item)

    def lose(self) -> None:
        """Break the connection; the broker may still read the bytes in its buffers."""
        wire = self.wires[-1]
        wire.lost = True
        for item in [item for item, _ in wire.back] + [item for item, _ in wire.there]:
            self.window.lost(item)
        self.wires.append(Wire())

    def step(self, action: int, which: int) -> None:
        """Do one thing of the eight that may happen."""
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
        """Let all go well from here on, until everything is settled."""
        for _ in range(20 * self.put + 20):
            if not len(self.window):
                return
            progress = self.send()
            wire = self.wires[-1]
            while wire.there:
                self.process(wire, ACCEPT)
                progress = True
            if wire.back:
                self.hear(0)
                progress = True
            assert progress, "the window is stuck"
        raise AssertionError("the window goes round in circles")


class InFlightWindowTests(SynchronousTestCase):
    """``InFlightWindow``."""

    @settings(deadline=None, max_examples=400)
    @given(st.lists(st.tuples(st.integers(0, 7), st.integers(0, 20)), max_size=120), st.integers(1, 5))
    def test_items_arrive_in_order_and_complete(self, schedule: list[tuple[int, int]], max_in_flight: int) -> None:
        """First occurrences are in order, nothing acknowledged is missing, and everything comes to an end."""
        model = Model(InFlightWindow(max_in_flight))
        for action, which in schedule:
            model.step(action, which)
        model.finish()
        firsts = list(dict.fromkeys(model.log))
        self.assertEqual(firsts, sorted(firsts))
        self.assertLessEqual(model.acknowledged, set(model.log))
        self.assertEqual(model.acknowledged | model.given_up, set(range(model.put)))

    def test_items_in_flight_are_bounded(self) -> None:
        """None is a restart while all goes well."""
        window: InFlightWindow[str] = InFlightWindow(2)
        for item in "abc":
            window.put(item)
        self.assertEqual([window.take(), window.take(), window.take()], [("a", False), ("b", False), None])
        window.acknowledged("a")
        self.assertEqual(window.take(), ("c", False))

    def test_the_window_restarts_from_a_refused_item(self) -> None:
        """All answers are awaited first: the broker refuses the items behind until a restart."""
        window: InFlightWindow[str] = InFlightWindow(3)
        for item in "abcd":
            window.put(item)
        for _ in "abc":
            window.take()
        window.refused("b")
        self.assertIsNone(window.take())
        window.refused("c")
        self.assertTrue(window.draining)
        window.acknowledged("a")
        self.assertEqual([window.take() for _ in "bcd"], [("b", True), ("c", False), ("d", False)])

    def test_items_behind_a_lasting_refusal_go_on(self) -> None:
        """The broker refused them as well, so they are sent again in order, beginning with a restart."""
        window: InFlightWindow[str] = InFlightWindow(3)
        for item in "abc":
            window.put(item)
        window.take()
        window.take()
        window.refused_for_good("a")
        window.refused("b")
        self.assertEqual([window.take(), window.take()], [("b", True), ("c", False)])

    def test_an_item_after_a_lasting_refusal_restarts(self) -> None:
        """The broker refuses the partition until then, even with nothing else in flight."""
        window: InFlightWindow[str] = InFlightWindow(3)
        window.put("a")
        window.take()
        window.refused_for_good("a")
        window.put("b")
        self.assertEqual(window.take(), ("b", True))

    def test_only_a_waiting_item_can_be_dropped(self) -> None:
        """An item in flight may be in the log already."""
        window: InFlightWindow[str] = InFlightWindow(1)
        window.put("a")
        window.put("b")
        window.take()
        self.assertEqual([window.drop("a"), window.drop("b"), len(window)], [False, True, 1])
        self.assertFalse(window.idle)
