"""Tests of the pages, words and drawings that are made from a result, and of those in the documents."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from twisted.trial.unittest import SynchronousTestCase

from logd.bench.systems.known import SYSTEMS
from logd.bench.systems.results.chosen import at_batch, at_best_batch, at_most_messages, has_disk, number, rows_of
from logd.bench.systems.results.figures import panels_of
from logd.bench.systems.results.pages import renew, renewed
from logd.bench.systems.results.report import lasted_words, markdown
from logd.bench.systems.results.style import themed
from logd.errors import LogdError
from tests.documentation.pages import ROOT

FIGURES = ROOT / "docs" / "figures"
#: The most bytes of one drawing.
LARGEST = 60_000


def _row(system: str, client: str, part: str, batch: int, rate: int, **more: Any) -> dict[str, Any]:
    spread = {"messages_per_second": [rate - 5, rate + 5]}
    sides = {f"{side}_{what}": 1.5 for side in ("client", "server") for what in ("processor_seconds", "peak_megabytes")}
    return {
        "system": system,
        "client": client,
        "part": part,
        "batch": batch,
        "messages": 1000,
        "messages_per_second": rate,
        "spread": spread,
        **sides,
        **more,
    }


def _result(**more: Any) -> dict[str, Any]:
    machine = {"processors": 2, "processor": "any", "memory_gigabytes": 8, "system": "Linux 6", "python": "3.11.7"}
    return {
        "size": 200,
        "messages": 1000,
        "rounds": 3,
        "machine": {**machine, "load_average": 0.5},
        "systems": [{"system": name, "version": "1", "durability": "none"} for name in ("logd", "other")],
        "missing": [],
        "rates": [100],
        "figures": [
            _row("other", "quick", "produce", 1, 4321),
            _row("logd", "logd", "produce", 1, 1234),
            _row("other", "quick", "produce", 50, 54321),
            _row("other", "slow", "produce", 0, 7),
            _row("other", "quick", "consume", 50, 98765),
            _row("logd", "logd", "consume", 50, 1),
            _row("logd", "logd", "consume", 0, 87654),
        ],
        **more,
    }


class ChosenTests(SynchronousTestCase):
    """The choice of rows."""

    def test_a_client_without_batches_of_its_own_is_shown_with_50(self) -> None:
        """Systems stand in the order of the run."""
        rows = at_best_batch(rows_of(_result(), "consume"))
        self.assertEqual([(name, row["batch"]) for name, row in rows.items()], [("logd", 0), ("other, quick", 50)])

    def test_acks_1_is_shown_of_several(self) -> None:
        """Whatever the order of the rows; a client that was measured with others alone is shown with its first."""
        rows = [
            _row("logd", "logd", "produce", 1, 400, acks=0),
            _row("logd", "logd", "produce", 1, 30, acks=1),
            _row("other", "quick", "produce", 1, 20, acks=-1),
            _row("other", "quick", "produce", 1, 40, acks=0),
            _row("redis", "redis", "produce", 1, 10),
        ]
        shown = {name: row["messages_per_second"] for name, row in at_batch(rows, 1).items()}
        self.assertEqual(shown, {"logd": 30, "other, quick": 20, "redis": 10})

    def test_consumers_are_shown_where_they_read_most(self) -> None:
        """A producer that is slow with its own batches leaves too little to read."""
        rows = [
            _row("redis", "redis", "consume", 50, 900_000, messages=700_000),
            _row("redis", "redis", "consume", 0, 500_000, messages=60_000),
            _row("logd", "logd", "consume", 50, 2, messages=2_000_000),
            _row("logd", "logd", "consume", 0, 3, messages=2_000_000),
        ]
        self.assertEqual({name: row["batch"] for name, row in at_most_messages(rows).items()}, {"redis": 50, "logd": 0})

    def test_three_digits_count(self) -> None:
        """A figure with more digits claims more than a run knows."""
        shown = [number(each) for each in (481_473, 1234.5, 99.96, 0.7213, 0)]
        self.assertEqual(shown, ["481,000", "1,230", "100", "0.721", "0"])


class MarkdownTests(SynchronousTestCase):
    """``markdown``."""

    def test_what_the_options_left_out_is_named(self) -> None:
        """A table without a system must not look as if there were none."""
        page = markdown(_result(missing=[{"name": "tansu", "reason": "not compiled"}]))
        left_out = [kind.name for kind in SYSTEMS.values() if kind.name not in ("logd", "tansu")]
        lines = ["- tansu: not compiled", *(f"- {name}: left out of this run by --system" for name in left_out)]
        self.assertTrue(page.endswith("Not measured:\n\n" + "\n".join(lines) + "\n"), page)
        systems = [{"system": kind.name, "version": "", "durability": ""} for kind in SYSTEMS.values()]
        whole = _result(systems=systems, figures=[])
        self.assertNotIn("Not measured", markdown(whole))
        self.assertIn("- latency: left out of this run by --no-latency", markdown({**whole, "rates": []}))

    def test_growth_that_is_no_measure_is_not_shown(self) -> None:
        """A log that is rewritten meanwhile shrinks; one round of it is enough."""
        sound = _row("logd", "logd", "produce", 0, 9, disk_bytes_per_message=209.0)
        shrunk = _row("other", "quick", "produce", 0, 9, disk_bytes_per_message=-51.9)
        once = _row("other", "slow", "produce", 0, 9, disk_bytes_per_message=230.0)
        once["spread"]["disk_bytes_per_message"] = [12.0, 240.0]
        none = _row("other", "old", "produce", 0, 9)
        self.assertEqual([has_disk(each, 200) for each in (sound, shrunk, once, none)], [True, False, False, False])
        result = _result(figures=[sound, shrunk, once, none])
        lines = [line for line in markdown(result).splitlines() if " | produce | " in line]
        self.assertEqual([line.split(" | ")[-1] for line in lines], ["209 |", *["not measured |"] * 3])
        (disk,) = [panels for name, _, panels in panels_of(result) if name == "disk.svg"]
        self.assertEqual(list(disk[0].rows), ["logd"])

    def test_a_result_says_how_many_messages_a_measurement_had(self) -> None:
        """Of the run as planned, and of each row; a result of an earlier version has the seconds by its rates."""
        self.assertIn("1,000 in a measurement, a tenth with batch 1;", markdown(_result()))
        timed = _result(seconds=5.0, messages=2_000_000, single_messages=2_000_000)
        words = "in a measurement as many as the client sends in about 5 s, at most 2,000,000;"
        self.assertIn(words, markdown(timed))
        self.assertIn("at most 2,000,000, with batch 1 10;", markdown({**timed, "single_messages": 10}))
        self.assertIn("bytes; 2,000,000 in a measurement;", markdown({**timed, "seconds": 0}))
        early = _row("logd", "logd", "consume", 50, 500)
        late = _row("logd", "logd", "produce", 0, 7, acks=-1, messages=50_001, seconds=0.25)
        self.assertEqual(lasted_words([early, late]), "a measurement has 1,000 to 50,000 messages and took 0.25 to 2 s")
        self.assertEqual(lasted_words([late]), "a measurement has 50,000 messages and took 0.25 s")
        self.assertEqual(lasted_words([]), "nothing was measured")
        page = markdown(_result(figures=[early, late]))
        self.assertIn("| logd | logd | consume | 50 |  | 1,000 | 2 | 500 (495 to 505) |", page)
        self.assertIn("| logd | logd | produce | default | -1 | 50,000 | 0.25 | 7 (2 to 12) |", page)


class PagesTests(SynchronousTestCase):
    """``renew`` and ``renewed``."""

    def test_a_part_is_replaced_and_the_rest_stays(self) -> None:
        """The same result twice gives the same page."""
        page = "before\n<!-- peers: figures -->\nold\n<!-- peers: end -->\nbetween\n"
        page += "<!-- peers: tables -->\n<!-- peers: end -->\n"
        once = renewed(page, _result(), "docs/figures")
        self.assertEqual(renewed(once, _result(), "docs/figures"), once)
        self.assertNotIn("old", once)
        self.assertTrue(once.startswith("before\n<!-- peers: figures -->\n![Bars of "))
        self.assertIn("\n<!-- peers: end -->\nbetween\n<!-- peers: tables -->\n", once)
        self.assertIn("one message to a request: logd 1,230, the fastest of the others other, quick 4,320;", once)
        self.assertIn("](docs/figures/figure-5-consumers.svg)", once)
        self.assertIn("load average before the run 0.5", once)
        self.assertIn(markdown(_result()).strip(), once)
        self.assertIn("logd is given a ready set of 50 in one call, and confluent-kafka is called 50 times", once)
        self.assertIn("; a measurement has 1,000 messages and took ", once)

    def test_a_page_says_what_holds_for_its_result(self) -> None:
        """Results of earlier versions had one acks, and confluent-kafka connected in its time."""
        page = "<!-- peers: figures -->\n<!-- peers: end -->\n"
        early = renewed(page, _result(), "figures")
        self.assertIn("The time of confluent-kafka includes its connecting", early)
        self.assertNotIn("acks 1", early)
        figures = [_row("logd", "logd", "produce", 0, 9, acks=1, seconds=2.0)]
        late = renewed(page, _result(figures=figures, seconds=5.0, single_messages=9), "figures")
        self.assertNotIn("includes its connecting", late)
        self.assertIn("with acks 1 where a client has the choice;", late)

    def test_a_page_finds_the_figures_from_its_own_folder(self) -> None:
        """The path is relative to the page."""
        folder = Path(self.mktemp())
        (folder / "docs").mkdir(parents=True)
        page = folder / "docs" / "page.md"
        page.write_text("<!-- peers: costs -->\n<!-- peers: end -->\n")
        renew(page, _result(), folder / "docs" / "figures")
        self.assertIn("](figures/memory.svg)", page.read_text())
        self.assertNotIn("latency-against-rate", page.read_text())

    def test_a_page_without_parts_or_with_an_unknown_part_is_an_error(self) -> None:
        """A page that would silently stay old is worse."""
        page = Path(self.mktemp())
        page.write_text("no part\n")
        self.assertRaises(LogdError, renew, page, _result(), Path("figures"))
        unknown = "<!-- peers: pictures -->\n<!-- peers: end -->\n"
        error = self.assertRaises(LogdError, renewed, unknown, _result(), "figures")
        self.assertIn("'pictures': one of figures, costs, tables", str(error))


class DrawingTests(SynchronousTestCase):
    """The drawings."""

    def test_the_colour_of_text_is_the_readers(self) -> None:
        """Whatever matplotlib's style sheet says."""
        svg = '<svg>\n <metadata>\n  <x/>\n </metadata>\n<path d="M 0.100001 338.987654"/>\n'
        svg += '<style type="text/css">*{a: b}</style>\n<text style="fill: #010203">x</text>  \n</svg>\n'
        found = themed(svg)
        self.assertIn("prefers-color-scheme:dark", found)
        self.assertIn('<text style="fill: currentColor">x</text>\n', found)
        self.assertNotIn("text/css", found)
        self.assertTrue(found.startswith('<svg>\n<path d="M 0.1 338.99"/>\n<style>'), found)

    def test_the_documents_show_the_result_that_is_kept_beside_them(self) -> None:
        """`make bench-figures` writes both from the result of one run."""
        result = json.loads((FIGURES / "peers.json").read_text())
        for page, folder in (("README.md", "docs/figures"), ("docs/benchmarks.md", "figures")):
            text = (ROOT / page).read_text()
            self.assertEqual(renewed(text, result, folder), text, f"{page} is not what make bench-figures writes")
            drawings = re.findall(r"!\[[^]]+\]\(([^)]+\.svg)\)", text)
            self.assertGreaterEqual(len(drawings), 2)
            for each in drawings:
                self.assertTrue((ROOT / page).parent.joinpath(each).exists(), each)

    def test_drawings_are_small_and_have_their_text_as_text(self) -> None:
        """They have no date, and follow the reader's choice of light or dark."""
        found = sorted(FIGURES.glob("*.svg"))
        self.assertIn("figure-4-producers.svg", [each.name for each in found])
        for each in found:
            svg = each.read_text()
            self.assertLess(len(svg), LARGEST, each.name)
            self.assertIn("prefers-color-scheme:dark", svg)
            self.assertNotIn("<dc:date>", svg)
            words = [text.text for text in ElementTree.fromstring(svg).iter("{http://www.w3.org/2000/svg}text")]
            self.assertIn("logd", words, each.name)
