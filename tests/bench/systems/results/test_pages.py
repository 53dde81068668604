"""Tests of the pages, words and drawings that are made from a result, and of those in the documents."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from twisted.trial.unittest import SynchronousTestCase

from logd.bench.systems.known import SYSTEMS
from logd.bench.systems.results.chosen import at_best_batch, number, rows_of
from logd.bench.systems.results.pages import renew, renewed
from logd.bench.systems.results.report import markdown
from logd.bench.systems.results.style import themed
from logd.errors import LogdError
from tests.documentation.pages import ROOT

FIGURES = ROOT / "docs" / "figures"
#: The most bytes of one drawing.
LARGEST = 60_000


def _row(system: str, client: str, part: str, batch: int, rate: int) -> dict[str, Any]:
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
