"""Tests of the options of ``twistd logd-mirror``."""

from __future__ import annotations

from contextlib import redirect_stderr
from io import StringIO

from twisted.python.usage import Options
from twisted.trial.unittest import SynchronousTestCase

from logd.mirror.tap import MirrorOptions


class MirrorOptionsTests(SynchronousTestCase):
    """Options of which some are wrong."""

    def test_wrong_use_ends_with_one_sentence(self) -> None:
        """Under twistd, which would print its whole help before the sentence, and end with status 1."""
        whole = ("--from", "a:2181", "--to", "b:2181", "--topics", ".*")
        for arguments, words in (
            ((), "--from is missing"),
            (("--from", "a:2181"), "--to is missing"),
            ((*whole, "more"), "'more' is not an option"),
            ((*whole, "--group", "a/b"), "group: "),
            ((*whole, "--http", "nonsense"), "http = 'nonsense' is not allowed"),
        ):
            options = MirrorOptions()
            options.parent = Options()
            said = StringIO()
            with redirect_stderr(said), self.assertRaises(SystemExit) as caught:
                options.parseOptions(list(arguments))
            first, last = said.getvalue().splitlines()
            self.assertEqual(caught.exception.code, 2)
            self.assertTrue(first.startswith(f"twistd logd-mirror: {words}"), first)
            self.assertEqual(last, '"twistd logd-mirror --help" lists the options.')

    def test_the_bounds_of_what_is_opened_are_options(self) -> None:
        """The error of a partition that stands still names them."""
        options = MirrorOptions()
        whole = ["--from", "a:2181", "--to", "b:2181", "--topics", ".*"]
        options.parseOptions([*whole, "--max-decompressed", "1000", "--max-decompressed-messages", "10"])
        self.assertEqual(options.plan.settings.bounds, (1000, 10))
