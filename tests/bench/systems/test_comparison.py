"""Tests of the frame of the comparison, with a system that pretends: start, clients in processes, results, stop."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from logd.bench.systems.comparison import PeerComparison, PeerPlan
from logd.bench.systems.load import DUE, Load, Stopwatch
from logd.bench.systems.peer import PeerClient
from logd.bench.systems.places import SystemPlaces
from logd.bench.systems.results.report import markdown
from tests.bench.systems.fake import BrokenPeer, FakePeer, MissingPeer


class ComparisonTests(SynchronousTestCase):
    """``PeerComparison``."""

    def compare(self) -> dict[str, Any]:
        """Compare the stand-ins in two rounds."""
        folder = Path(self.mktemp())
        folder.mkdir()
        plan = PeerPlan(messages=1000, size=40, batches=(50, 0), rates=(500,), rounds=2, warm_messages=10)
        peers = [FakePeer, MissingPeer, BrokenPeer]
        result = PeerComparison(str(folder.resolve()), SystemPlaces(), plan, peers, self.told.append).run()
        self.assertEqual(list(folder.iterdir()), [])
        return json.loads(json.dumps(result))  # type: ignore[no-any-return]

    def setUp(self) -> None:
        """Note the steps of a run."""
        self.told: list[str] = []

    def test_a_run_has_a_figure_or_a_reason_for_everything(self) -> None:
        """A system that fails, forgets messages, or is not here is a line with the reason, and the rest goes on."""
        result = self.compare()
        rows = result["figures"]
        figures = {(each["client"], each["part"], each.get("batch"), each.get("acks")): each for each in rows}
        rates = {("honest", part, batch, None) for part in ("produce", "consume") for batch in (50, 0)}
        forgetful = {("forgetful", "produce", 0, acks) for acks in (1, -1)}
        self.assertEqual(set(figures), rates | forgetful | {("honest", "latency", None, None)})
        for each in figures.values():
            self.assertEqual(len(each["rounds"]), 2)
        self.assertEqual(figures["honest", "produce", 50, None]["messages"], 1000)
        self.assertGreater(figures["honest", "produce", 50, None]["seconds"], -1)
        self.assertGreaterEqual(figures["honest", "latency", None, None]["latency_ms_99"], 0)
        reasons = {each["name"]: each["reason"] for each in result["missing"]}
        self.assertIn("no luck", reasons["fake by failing, batch 0"])
        self.assertIn("only 999 of 1000 messages", reasons["fake by forgetful, batch 0, acks 1"])
        self.assertIn("no-such-distribution", reasons["fake by absent"])
        self.assertNotIn("fake by forgetful, batch 0, acks -1", reasons)
        self.assertEqual(self.told.count("fake: honest warms up"), 2)
        self.assertEqual(reasons["missing"], "nobody has written it")
        self.assertIn("out of order", reasons["broken"])
        page = markdown(result)
        self.assertIn("| fake | honest | produce | 50 | ", page)
        self.assertIn("- fake: nothing survives.", page)
        self.assertIn("- broken: broken did not start: its process ended: out of order", page)


class PlanTests(SynchronousTestCase):
    """``PeerPlan``."""

    def test_nothing_unacknowledged_is_measured_but_single_messages(self) -> None:
        """A client without a choice is measured once."""
        plan = PeerPlan()
        client = PeerClient("kafka", "module", acks=(0, 1, -1))
        self.assertEqual([list(plan.acks_of(client, batch)) for batch in (1, 50)], [[1, -1, 0], [1, -1]])
        self.assertEqual(plan.acks_of(PeerClient("redis", "module"), 1), [None])

    def test_single_messages_have_a_bound_of_their_own(self) -> None:
        """Each is a request, which takes long."""
        plan = PeerPlan(messages=1000, single_messages=10)
        self.assertEqual([plan.most_of(batch) for batch in (1, 50, 0)], [10, 1000, 1000])


class TrialTests(SynchronousTestCase):
    """The trials of a ``PeerComparison``."""

    def test_the_messages_of_a_measurement_are_found_once(self) -> None:
        """They are those of the time, in every round, and make whole batches."""
        folder = Path(self.mktemp())
        folder.mkdir()
        told: list[str] = []

        class HonestPeer(FakePeer):
            """With one client that is tried, and one that is not."""

            clients = (*FakePeer.clients[:1], PeerClient("whole", "tests.bench.systems.fake", whole=True))

        plan = PeerPlan(messages=30_050, size=20, batches=(50,), rates=(), rounds=2, seconds=1e-9, warm_messages=0)
        result: Any = PeerComparison(str(folder.resolve()), SystemPlaces(), plan, [HonestPeer], told.append).run()
        trials = [each for each in told if "trial" in each]
        self.assertEqual([each for each in trials if "whole" in each], [])
        self.assertEqual(trials[0], "fake: honest, trial of 1,000 messages, batch 50")
        self.assertEqual(len(trials), len(set(trials)))
        self.assertEqual({each["messages"] for each in result["figures"]}, {30_050})


class PeerTests(SynchronousTestCase):
    """``Peer``."""

    def test_a_peer_is_stopped_with_its_processes(self) -> None:
        """It serves when ``start`` returns, its files are counted, and nothing listens at its port afterwards."""
        folder = Path(self.mktemp())
        folder.mkdir()
        peer = FakePeer(SystemPlaces(), str(folder.resolve()))
        peer.start()
        self.addCleanup(peer.stop)
        self.assertTrue(peer.serves())
        self.assertEqual(len(peer.processes), 1)
        peer.stop()
        self.assertEqual(peer.stored_bytes(), 8192)
        self.assertEqual((peer.processes, peer.serves()), ([], False))


class LoadTests(SynchronousTestCase):
    """``Load`` and ``Stopwatch``."""

    def test_paced_payloads_carry_the_time_at_which_they_were_due(self) -> None:
        """A sender that must not block gets None between them."""
        load = Load("topic", messages=5, size=30, rate=1000)
        found = list(load.due_payloads())
        payloads = [each for each in found if each is not None]
        self.assertGreater(len(found), len(payloads))
        self.assertEqual({len(each) for each in payloads}, {30})
        due = [DUE.unpack_from(each)[0] for each in payloads]
        for one, next_one in pairwise(due):
            self.assertAlmostEqual(next_one - one, 0.001, 6)

    def test_the_first_latencies_are_not_counted(self) -> None:
        """Clients connect then."""
        watch = Stopwatch(latencies=[9.0, 9.0, *[1.0] * 8])
        self.assertEqual(watch.counted_latencies(), [1.0] * 8)


class PlacesTests(SynchronousTestCase):
    """``SystemPlaces``."""

    def test_programs_of_the_folder_come_before_those_on_the_path(self) -> None:
        """Without a folder nothing is looked for beside the PATH."""
        folder = Path(self.mktemp()).resolve()
        program = folder / "debian/usr/bin/sh"
        program.parent.mkdir(parents=True)
        program.touch(0o700)
        self.assertEqual(SystemPlaces(str(folder)).program("sh"), str(program))
        self.assertNotIn(SystemPlaces().program("sh"), (None, str(program)))
        self.assertIsNone(SystemPlaces(str(folder)).program("no-such-program"))
        self.assertIsNone(SystemPlaces().find("*"))
