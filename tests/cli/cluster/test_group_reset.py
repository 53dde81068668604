"""Tests of logd.cli.cluster.group_reset: what a person is asked."""

from __future__ import annotations

import io
import sys

from twisted.trial.unittest import SynchronousTestCase

from logd.cli.cluster.group_reset import agree_to_move
from logd.coord.groups.inspection import GroupEntry
from logd.coord.registries.offsets import Offset
from logd.errors import LogdError
from logd.topic import TopicPartition
from tests.cli.terminal.doubles import Terminal

PLACE = TopicPartition("clicks", 1)


class AgreeToMoveTests(SynchronousTestCase):
    """``agree_to_move``."""

    def asked(self, answer: str, as_json: bool) -> tuple[str, str]:
        """Return what is printed on both streams for a person who gives this answer."""
        self.patch(sys, "stdin", Terminal(answer))
        self.patch(sys, "stdout", out := io.StringIO())
        self.patch(sys, "stderr", err := io.StringIO())
        agree_to_move(GroupEntry("billing", offsets={PLACE: Offset(100, 0)}), {PLACE: 250}, as_json)
        return out.getvalue(), err.getvalue()

    def test_the_positions_are_shown_before_the_question(self) -> None:
        """With --json they are on stderr: standard output is one JSON object."""
        question = "Move group billing to these positions? [y/N]: "
        self.assertEqual(self.asked("y\n", False), ("clicks\t1\t100\t250\n", question))
        self.assertEqual(self.asked("y\n", True), ("", f"clicks\t1\t100\t250\n{question}"))

    def test_no_is_an_error(self) -> None:
        """The command ends with status 1."""
        self.assertRaises(LogdError, self.asked, "n\n", True)
