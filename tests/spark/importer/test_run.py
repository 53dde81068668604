"""Tests of a whole import over a made-up broker and a loader that is no Spark."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from attrs import define, evolve
from twisted.trial.unittest import SynchronousTestCase

from logd.errors import BrokerUnavailable, LogdError, UnknownTopic
from logd.protocol.loops import encode_set
from logd.protocol.message import Message
from logd.spark.blocking.offsets import parse_offsets
from logd.spark.blocking.reading import DataLost
from logd.spark.blocking.subscription import SourceSubscription
from logd.spark.importer.errors import ImportFailed, RunLost
from logd.spark.importer.import_plan import PlannedRange
from logd.spark.importer.report import ImportReport
from logd.spark.importer.run import Importer
from logd.spark.importer.settings import ImportSettings
from logd.spark.importer.targets.layout import OFFSETS
from logd.spark.importer.targets.local import LocalTarget
from logd.spark.importer.targets.offsets import FORMAT, PLACE_COLUMNS, Loaded, PlaceColumns
from logd.spark.importer.targets.target import Target
from logd.spark.importer.targets.verifying import verify
from tests.spark.doubles import FakeBroker, FakeLog, FakeTopic

#: Ten messages of ten bytes each, with what is around them.
TEN = encode_set([Message(b"x")] * 10)


@define
class FakeLoader:
    """Writes a file for each range; ``meanwhile`` happens once the files are there."""

    meanwhile: Callable[[], object] = lambda: None
    loads: int = 0
    #: Bytes of gaps in each range.
    gaps: int = 0
    columns: PlaceColumns | None = None

    def start(self, size: int) -> None:
        """See Loader."""

    def load(self, ranges: Sequence[PlannedRange], folder: str, began_ms: int, columns: PlaceColumns) -> list[Loaded]:
        """See Loader."""
        self.loads += 1
        self.columns = columns
        path = Path(folder.removeprefix("file://"))
        path.mkdir()
        for number, each in enumerate(ranges):
            (path / f"part-{number}").write_text(str(each))
        self.meanwhile()
        sizes = [(each, each.bytes - self.gaps) for each in ranges]
        return [Loaded(each.lineage, each.start, each.end, size // 10, size) for each, size in sizes]

    def target(self, location: str) -> Target:
        """See Loader."""
        raise NotImplementedError


class ImportTestCase(SynchronousTestCase):
    """Topic a with two partitions, topic b with one."""

    def setUp(self) -> None:
        """The broker, and settings for topic a."""
        self.a = FakeTopic("uuid-a", [FakeLog(TEN), FakeLog(TEN + TEN)])
        self.broker = FakeBroker({"a": self.a, "b": FakeTopic("uuid-b")})
        self.loader = FakeLoader()
        self.to = Path(os.path.abspath(self.mktemp()))
        self.settings = ImportSettings(subscription=SourceSubscription(topics=("a",)), to=str(self.to), format="json")

    def run_import(self, **changes: Any) -> ImportReport:
        """Import what is new."""
        settings = evolve(self.settings, **changes)
        connect = lambda cluster: self.broker.cluster(retry_timeout=5.0)  # noqa: E731
        return Importer(settings, self.loader, connect, clock=lambda: 1_320_969_600.0).run()

    def fails(self, kind: type[LogdError], words: str, **changes: Any) -> None:
        """The import fails so; nothing is visible and nothing staged."""
        visible = self.visible()
        with self.assertRaisesRegex(kind, words):
            self.run_import(**changes)
        self.assertEqual(self.visible(), visible)
        if self.to.exists():
            self.assertEqual(list((self.to / "_staging").glob("*")), [])

    def visible(self) -> list[str]:
        """The runs."""
        return sorted(each.name for each in self.to.glob("run=*"))


class RunTests(ImportTestCase):
    """All goes well."""

    def test_incremental(self) -> None:
        """Each run loads what is new; nothing new makes no run, and touches no Spark."""
        report = self.run_import()
        self.assertEqual((report.run, report.messages, report.bytes), (1, 30, 300))
        self.assertIn("loaded 30 messages (300 bytes of log) from 2 partitions", report.sentence())
        again = self.run_import()
        self.assertEqual((again.run, again.sentence()), (None, f"nothing new for {self.to}"))
        self.a.logs[1].data += TEN
        self.a.logs.append(FakeLog(TEN))
        report = self.run_import()
        self.assertEqual([each.start for each in report.loaded], [200, 0])
        self.assertEqual((self.visible(), self.loader.loads), (["run=1", "run=2"], 2))
        self.assertEqual(verify(str(self.to)).messages, 50)
        self.assertEqual(self.loader.columns, PLACE_COLUMNS[FORMAT])

    def test_target_of_an_earlier_release(self) -> None:
        """A target goes on with the columns that it was begun with, run after run."""
        self.run_import()
        offsets = self.to / "run=1" / "_offsets.json"
        offsets.write_text(offsets.read_text().replace(f'"format": {FORMAT}', '"format": 1'))
        for run in ("run=2", "run=3"):
            self.a.logs[1].data += TEN
            self.run_import()
            self.assertEqual(self.loader.columns, PlaceColumns("offset", "next_offset"))
            self.assertEqual(json.loads((self.to / run / "_offsets.json").read_text())["format"], 1)

    def test_other_topics(self) -> None:
        """One target may hold several imports' topics; a pattern takes what it matches, also without messages."""
        self.run_import()
        self.broker.topics["b"].logs[0].data = TEN
        report = self.run_import(subscription=SourceSubscription(pattern="[ab]"))
        self.assertEqual([each.lineage.topic for each in report.loaded], ["b"])
        self.assertEqual(report.plan.reached, {("a", 0): 100, ("a", 1): 200, ("b", 0): 100})
        report = self.run_import(subscription=SourceSubscription(pattern="c.*"))
        self.assertEqual((report.plan.ranges, report.run), ((), None))
        self.assertIn("matches 'c.*'", report.notices[0])

    def test_dry_run(self) -> None:
        """A plan and nothing else; from another place than the start."""
        starting = parse_offsets(json.dumps({"a": {"0": 50, "1": -1}}), "earliest")
        report = self.run_import(dry_run=True, starting=starting)
        self.assertEqual((report.rows(), report.run), ([("a", 0, 50, 100, 50, None, None)], None))
        self.assertEqual((self.to.exists(), self.loader.loads), (False, 0))
        self.assertIsNone(report.to_json()["messages"])

    def test_report(self) -> None:
        """What scripts get."""
        value = self.run_import().to_json()
        self.assertEqual((value["run"], value["messages"], value["gap_bytes"]), (1, 30, 0))
        self.assertEqual(
            value["partitions"][0],
            {"topic": "a", "uuid": "uuid-a", "partition": 0, "start": 0, "end": 100, "messages": 10, "gap_bytes": 0},
        )
        json.dumps(value)


class TroubleTests(ImportTestCase):
    """What goes wrong shows nothing."""

    def test_no_topic_no_broker(self) -> None:
        """Nothing is made for a topic that does not exist, or when no broker answers for as long as was allowed."""
        words = r"there is no topic 'nine' at fake:1; 'logd topics list' names those"
        self.fails(UnknownTopic, words, subscription=SourceSubscription(topics=("nine",)))

        def gone(request: object) -> None:
            raise OSError("gone")

        self.broker.before = gone
        self.fails(BrokerUnavailable, "gone")
        self.assertFalse(self.to.exists())

    def test_another_meanwhile(self) -> None:
        """An import that waited while another one ended goes by what is there now, and takes nothing for lost."""
        outer = self

        class Late(Importer):
            def target(self) -> Target:
                outer.a.logs[1].data += TEN
                outer.run_import()
                return super().target()

        connect = lambda cluster: self.broker.cluster()  # noqa: E731
        report = Late(self.settings, self.loader, connect).run()
        self.assertEqual((report.run, report.notices, self.visible()), (None, (), ["run=1"]))
        self.assertEqual(report.plan.reached["a", 1], 300)

    def test_inside_a_message(self) -> None:
        """A place to begin that lies inside a message means that message, as everywhere."""
        starting = parse_offsets(json.dumps({"a": {"0": 55, "1": 40}}), "earliest")
        report = self.run_import(starting=starting)
        self.assertEqual([(each.start, each.end) for each in report.loaded], [(50, 100), (40, 200)])

    def test_discarding_fails(self) -> None:
        """What went wrong first is what is told."""

        def fail() -> None:
            raise ImportFailed("the first")

        class Clinging(LocalTarget):
            def discard(self, uuid: str) -> None:
                raise OSError("the second")

        self.loader.meanwhile = fail
        importer = Importer(self.settings, self.loader, lambda cluster: self.broker.cluster())
        self.patch(Importer, "target", lambda _: Clinging(str(self.to)))
        with self.assertRaisesRegex(ImportFailed, "the first"):
            importer.run()

    def test_load_fails(self) -> None:
        """A load that fails, or is interrupted, leaves nothing; the next one loads the same."""
        for error in (ImportFailed("no"), KeyboardInterrupt()):

            def fail(error: BaseException = error) -> None:
                raise error

            self.loader.meanwhile = fail
            with self.assertRaises(type(error)):
                self.run_import()
            self.assertEqual((self.visible(), os.listdir(self.to / "_staging")), ([], []))
        self.loader.meanwhile = lambda: None
        self.assertEqual(self.run_import().messages, 30)

    def test_made_again_meanwhile(self) -> None:
        """A topic that is another one after the load makes the run fail: its ids are not those that were planned."""
        self.loader.meanwhile = lambda: setattr(self.a, "uuid", "uuid-of-another")
        self.fails(ImportFailed, "created again while it was loaded")

    def test_data_lost(self) -> None:
        """Retention, and a topic that was created again, between two runs."""
        self.run_import()
        self.a.logs[0] = FakeLog(TEN, start=150)
        self.fails(DataLost, "unknown number of messages from 100 to 150")
        report = self.run_import(accept_loss=True)
        self.assertEqual([(each.start, each.end) for each in report.loaded], [(150, 250)])
        self.a.uuid = "uuid-of-another"
        self.fails(DataLost, "created again")
        self.assertEqual(self.run_import(accept_loss=True).run, 3)
        lost = json.loads((self.to / "run=3" / OFFSETS).read_bytes())["lost"]
        found = [(each["uuid"], each["start"], each["end"]) for each in lost]
        self.assertEqual(found, [("uuid-a", 250, -1), ("uuid-a", 200, -1)])
        self.assertEqual(verify(str(self.to)).runs, 3)

    def test_log_lost(self) -> None:
        """A log that begins anew is a loss that is accepted once, and kept, also when there is nothing to load yet."""
        self.run_import()
        self.a.logs[0] = FakeLog(b"", start=1 << 40)
        self.fails(DataLost, f"unknown number of messages from 100 to {1 << 40}")
        report = self.run_import(accept_loss=True)
        self.assertEqual((report.run, report.messages, self.loader.loads), (2, 0, 1))
        self.assertIn("loaded nothing", report.sentence())
        (lost,) = json.loads((self.to / "run=2" / OFFSETS).read_bytes())["lost"]
        self.assertEqual((lost["start"], lost["end"]), (100, 1 << 40))
        self.assertEqual(self.run_import().run, None)
        self.a.logs[0].data = TEN
        report = self.run_import()
        self.assertEqual([(each.start, each.messages) for each in report.loaded], [(1 << 40, 10)])
        found = verify(str(self.to))
        self.assertEqual((found.runs, found.messages, len(found.lost)), (3, 40, 1))
        self.assertIn(f"from 100 to {1 << 40}", found.to_json()["lost"][0]["reason"])

    def test_log_cut(self) -> None:
        """Of a log that ends before what was loaded nothing is passed over while it grows to there again."""
        self.run_import()
        self.a.logs[0].data = TEN[:50]
        self.fails(DataLost, "ends at 50")
        self.assertEqual(self.run_import(accept_loss=True).run, 2)
        self.a.logs[0].data = TEN + TEN
        report = self.run_import()
        self.assertEqual([(each.start, each.end) for each in report.loaded], [(50, 200)])
        self.assertEqual(verify(str(self.to)).runs, 3)

    def test_gaps(self) -> None:
        """Gaps that a load has come across are told of, since somebody's messages were there."""
        self.loader.gaps = 50
        report = self.run_import()
        self.assertEqual([each.gap_bytes for each in report.loaded], [50, 50])
        self.assertIn("partition 0: 50 bytes of log from 0 to 100 are gaps", report.notices[0])
        self.assertEqual(len(report.notices), 2)

    def test_two_at_once(self) -> None:
        """A second import into the target is told at once; the first goes on."""

        def second() -> None:
            with self.assertRaisesRegex(RunLost, "at work"):
                self.run_import()

        self.loader.meanwhile = second
        self.assertEqual((self.run_import().run, self.loader.loads), (1, 1))

    def test_dead_import(self) -> None:
        """What a dead import staged is removed by the next one, also when there is nothing new."""
        self.run_import()
        dead = LocalTarget(str(self.to)).staging("dead").removeprefix("file://")
        Path(dead, "topic=a").mkdir(parents=True)
        self.run_import()
        self.assertEqual(os.listdir(self.to / "_staging"), [])
