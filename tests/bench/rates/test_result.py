"""Tests of logd.bench.rates.result: a round's figures, medians and spread, and the meaning of a ratio."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from logd.bench.rates.process_usage import Usage
from logd.bench.rates.result import Moved, Result, meaning, summarise
from logd.bench.rates.workload import Workload


def _result(seconds: float, limit: float, broker: Usage | None = None) -> dict[str, object]:
    moved = Moved(seconds, messages=1000, log_bytes=100_000)
    return Result("produce", Workload(1000, 91), moved, limit, Usage(0.5, 50_000_000), broker).to_json()


class ResultTests(SynchronousTestCase):
    """``Result``."""

    def test_rates_are_of_the_bytes_in_the_log(self) -> None:
        """With compression, or batches, a message has other bytes there than in the application."""
        result = _result(0.5, 400_000.0)
        self.assertEqual(result["messages_per_second"], 2000)
        self.assertEqual(result["log_bytes_per_message"], 100)
        self.assertEqual(result["megabytes_per_second"], 0.2)
        self.assertEqual(result["limit_messages_per_second"], 4000)
        self.assertEqual(result["ratio_to_limit"], 0.5)

    def test_a_running_brokers_usage_is_unknown(self) -> None:
        """The bench knows the processes that it has started, and no others."""
        self.assertIsNone(_result(1, 1)["broker_processor_seconds"])
        self.assertEqual(_result(1, 1, Usage(0.25, 60_000_000))["broker_peak_megabytes"], 60)


class SummariseTests(SynchronousTestCase):
    """``summarise``."""

    def test_each_figure_has_a_median_and_a_spread(self) -> None:
        """The median of an odd number of rounds is one of them, whole if it was whole."""
        summary = summarise([_result(seconds, 1e6) for seconds in (1.0, 4.0, 2.0)], "messages_per_second")
        self.assertEqual(summary["messages_per_second"], 500)
        self.assertEqual(summary["seconds"], 2.0)
        self.assertEqual(summary["rounds"], [1000, 250, 500])
        spread = summary["spread"]
        assert isinstance(spread, dict)
        self.assertEqual(spread["messages_per_second"], [250, 1000])
        self.assertNotIn("size", spread)

    def test_texts_switches_and_unknown_figures_stay(self) -> None:
        """A switch is no number, though Python counts it as one."""
        summary = summarise([_result(1.0, 1e6), _result(2.0, 1e6)], "seconds")
        self.assertEqual((summary["bench"], summary["merge"]), ("produce", True))
        self.assertIs(summary["merge"], True)
        self.assertIsNone(summary["broker_peak_megabytes"])


class MeaningTests(SynchronousTestCase):
    """``meaning``."""

    def test_the_ratio_is_said_in_words(self) -> None:
        """A reader need not know which limit it is a ratio to."""
        text = meaning(summarise([_result(0.5, 400_000.0)], "seconds"))
        self.assertIn("moves 100 bytes from a socket into a file", text)
        self.assertIn("logd moved 50.", text)
        self.assertNotIn("disturbed", text)

    def test_an_unsteady_limit_is_warned_of(self) -> None:
        """A ratio to a limit that doubled meanwhile says little about other runs."""
        text = meaning(summarise([_result(0.5, 4e8), _result(0.5, 8e8)], "seconds"))
        self.assertIn("between 400 and 800 MB/s", text)
