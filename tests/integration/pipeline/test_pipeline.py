"""The whole pipeline in real processes: nothing is lost whatever is killed, and a message removed by hand is missed."""

from __future__ import annotations

import os
from importlib.util import find_spec
from pathlib import Path
from random import Random

from twisted.trial.unittest import SynchronousTestCase

from demo.load import why_not
from demo.pipeline import TOPIC, Pipeline
from logd.testing.processes.server import ServerProcess

#: Rounds of harm beyond the first; CONTRIBUTING.md has the variable.
ROUNDS = int(os.environ.get("LOGD_TEST_ROUNDS", "1"))
#: Events between two kills.
SOME = 500


class PipelineTests(SynchronousTestCase):
    """A live cluster of two brokers, a mirror that copies schemas too, and an offline cluster."""

    def setUp(self) -> None:
        """Start all servers."""
        if find_spec("fastavro") is None:
            self.skipTest("fastavro is not installed")
        self.pipeline = Pipeline(Path(os.path.abspath(self.mktemp())))
        self.addCleanup(self.pipeline.end)
        self.pipeline.start()

    def test_what_is_killed_loses_nothing_and_what_is_removed_is_named(self) -> None:
        """Brokers of both clusters and the mirror are killed under load, while the schema of the events evolves."""
        pipeline, processes = self.pipeline, self.pipeline.processes
        first, report = pipeline.produce("web1", "first"), pipeline.report()
        pipeline.feed(first, SOME)
        report.wait_for(range(SOME))
        pipeline.kill(processes.mirror)
        pipeline.feed(first, SOME)
        pipeline.kill(processes.live.brokers[1])
        second = pipeline.produce("web2", "second")
        pipeline.feed(second, SOME, agent="demo")
        # Its schema is registered then: a producer needs the registry, which a broker serves, to begin.
        report.wait_for(range(pipeline.events))
        random = Random(0)
        victims: list[ServerProcess] = [processes.offline.brokers[0], processes.live.brokers[0]]
        victims += [random.choice([processes.mirror, *processes.servers]) for _ in range(ROUNDS - 1)]
        for victim in victims:
            pipeline.feed(first, SOME)
            pipeline.feed(second, SOME, agent="demo")
            pipeline.kill(victim)
        self.assertEqual(pipeline.finish(first) + pipeline.finish(second), pipeline.events)
        report.wait_for(range(pipeline.events))
        report.stop()
        self.assertEqual((set(report.numbers), report.schemas), (set(range(pipeline.events)), {1, 2}))
        tiers = ["produced", "mirrored", "consumed"]
        if why_not() is None:
            tiers.append("loaded")
            self._load()
        verdicts, complaints = pipeline.audit(*tiers)
        self.assertEqual([each for each in verdicts if each["missing"] or each["unaccounted"]], [], complaints)
        for tier in tiers:
            seen = sum(each["seen"] for each in verdicts if each["tier"] == tier)
            self.assertGreaterEqual(seen, pipeline.events, tier)
        self._remove_one(sum(each["expected"] for each in verdicts if each["tier"] == "consumed"))
        self.assertEqual(set(pipeline.stop()), {0})

    def _load(self) -> None:
        """Import everything by the registry; older events get the default of the newer schema's field."""
        from pyarrow import dataset

        target = self.pipeline.folder / "imported"
        self.assertGreaterEqual(self.pipeline.load(target), self.pipeline.events)
        values = (
            dataset.dataset(str(target), partitioning="hive").to_table(columns=["value"]).column("value").to_pylist()
        )
        self.assertEqual({each["number"] for each in values}, set(range(self.pipeline.events)))
        self.assertEqual({each["agent"] for each in values}, {"unknown", "demo"})

    def _remove_one(self, expected: int) -> None:
        """Remove a message before the mirror has seen it; the audit names the server, the topic and the window."""
        pipeline, mirror = self.pipeline, self.pipeline.processes.mirror
        self.assertEqual(mirror.stop(), 0)
        third = pipeline.produce("web3", "second")
        begin = pipeline.events
        pipeline.feed(third, 3)
        self.assertEqual(pipeline.finish(third), 3)
        self.assertIn(f"{TOPIC}-", pipeline.remove_one(begin + 1))
        mirror.start()
        report = pipeline.report()
        report.wait_for([begin, begin + 2])
        report.stop()
        verdicts, complaints = pipeline.audit("produced", "mirrored", "consumed")
        missing = [each for each in verdicts if each["missing"]]
        self.assertEqual({each["topic"] for each in missing}, {TOPIC})
        self.assertEqual({(each["missing"], each["window"]) for each in missing}, {(1, missing[0]["window"])})
        self.assertEqual({each["tier"] for each in missing}, {"mirrored", "consumed"})
        self.assertRegex(complaints, rf"topic {TOPIC}, window \S+Z, consumed by report: 1 message from web3 missing")
        self.assertEqual(sum(each["expected"] for each in verdicts if each["tier"] == "consumed"), expected + 3)
