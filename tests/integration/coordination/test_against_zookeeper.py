"""The embedded server against a real ZooKeeper: random requests of several sessions get the same frames."""

from __future__ import annotations

import os
from itertools import zip_longest

from twisted.trial.unittest import SynchronousTestCase

from logd.testing.processes.coordination import CoordinationProcess
from logd.testing.processes.zookeeper import ZooKeeperProcess, missing
from tests.integration.coordination.wire_sides import Side
from tests.integration.coordination.wire_steps import Ask, Step, steps

#: Sequences in the suite, and steps of each; LOGD_WIRE_SEEDS=1000 LOGD_WIRE_STEPS=500 for more.
SEEDS = int(os.environ.get("LOGD_WIRE_SEEDS", "4"))
STEPS = int(os.environ.get("LOGD_WIRE_STEPS", "250"))
FIRST = int(os.environ.get("LOGD_WIRE_FIRST", "0"))


class AgainstZooKeeperTests(SynchronousTestCase):
    """Both servers get the same requests."""

    skip = missing() or None
    timeout = 600 + SEEDS * STEPS

    def setUp(self) -> None:
        """Start both servers."""
        self.ours = CoordinationProcess(os.path.abspath(self.mktemp())).start()
        self.addCleanup(self.ours.kill)
        self.real = ZooKeeperProcess(os.path.abspath(self.mktemp()), tick_ms=2000).start()
        self.addCleanup(self.real.kill)

    def test_both_servers_answer_random_requests_alike(self) -> None:
        """They are compared frame by frame, so that watch events stand at the same places between the answers."""
        for seed in range(FIRST, FIRST + SEEDS):
            self._compare(seed)

    def _compare(self, seed: int) -> None:
        sides = Side(self.ours.port), Side(self.real.port)
        folder = f"/seed-{seed}"
        for side in sides:
            side.open()
            side.make_folder(folder)
        done: list[str] = []
        for number, step in enumerate(steps(seed, STEPS, folder)):
            done.append(f"{number}: {_told(step)}")
            ours, real = (side.take(step) for side in sides)
            if ours != real:
                pairs = zip_longest(ours, real)
                at, pair = next((at, pair) for at, pair in enumerate(pairs) if pair[0] != pair[1])
                before = "\n  ".join(done[-6:])
                self.fail(
                    f"LOGD_WIRE_FIRST={seed} LOGD_WIRE_SEEDS=1, step {number}, frame {at}:\n"
                    f"  logd       {pair[0]}\n  ZooKeeper  {pair[1]}\n  {before}"
                )
        for side in sides:
            side.close()


def _told(step: Step) -> str:
    if isinstance(step, Ask):
        return f"session {step.session}: " + " | ".join(each.text for each in step.requests)
    return repr(step)
