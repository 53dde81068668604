"""Tests of what ``logd quotas`` takes."""

from __future__ import annotations

from click.testing import CliRunner
from twisted.trial.unittest import SynchronousTestCase

from logd.cli.security.quotas import LimitParameter, quotas


class QuotasCommandTests(SynchronousTestCase):
    """The arguments, without a tree."""

    def test_limits_are_read_with_units(self) -> None:
        """Thousands, millions and milliards; none takes a limit away."""
        read = LimitParameter().convert
        found = [read(text, None, None) for text in ("bytes.in=5M", "topics=0", "requests=1k", "bytes.out=none")]
        self.assertEqual(found, [("bytes_in", 5_000_000), ("topics", 0), ("requests", 1000), ("bytes_out", None)])

    def test_mistakes_are_told_before_anything_is_asked(self) -> None:
        """The text names what was given, and what is allowed."""
        for words, told in (
            (["alice", "bytes.in=-1"], "bytes.in = '-1' is not allowed; allowed is a whole number"),
            (["alice", "bytes.in=999"], "allowed is a whole number from 1000"),
            (["alice", "tea=1"], "allowed is LIMIT=VALUE with one of bytes.in"),
            (["alice", "bytes.in"], "allowed is LIMIT=VALUE"),
            (["alice"], "Missing argument 'LIMITS...'"),
            (["a/b", "topics=1"], "not allowed as the name of a user"),
            (["logd-broker", "topics=1"], "brokers are not held up"),
        ):
            result = CliRunner().invoke(quotas, ["set", *words, "--zookeeper", "127.0.0.1:1"])
            self.assertEqual(result.exit_code, 2, words)
            self.assertIn(told, result.output)
