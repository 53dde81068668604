"""Tests of what a person at a terminal sees, and what a script does not."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Sequence
from unittest import mock

from click import unstyle
from twisted.trial.unittest import SynchronousTestCase

from logd.cli.terminal.exits import complain
from logd.cli.terminal.progress import ProgressLine
from logd.cli.terminal.rendering import renderer
from logd.cli.terminal.tables import show
from logd.protocol.message import Message

#: Whatever the tests themselves run in.
ORDINARY = {"TERM": "xterm", "COLUMNS": "100", "NO_COLOR": "1"}


class Terminal(io.StringIO):
    """A stream that a person looks at."""

    def isatty(self) -> bool:
        """It is."""
        return True


class MessagesTests(SynchronousTestCase):
    """What ``logd consume`` writes of messages that anybody may have produced."""

    MESSAGES = (Message(b"\x1b]0;owned\x07\xc2\x9b2J red\ttab\r\x7f", key=b"k"), Message("gr\xfc\xdfe".encode()))

    def rendered(self, shape: str, descriptor: int) -> bytes:
        """What is written to an open file."""
        return renderer(shape, descriptor)(self.MESSAGES)

    def test_a_terminal_obeys_nothing(self) -> None:
        """Control characters are written out; tabs, newlines and letters of every language stay."""
        ours, theirs = os.openpty()
        self.addCleanup(os.close, ours)
        self.addCleanup(os.close, theirs)
        shown = rb"\x1b]0;owned\x07\xc2\x9b2J red" + b"\ttab" + rb"\x0d\x7f" + "\ngr\xfc\xdfe\n".encode()
        self.assertEqual(self.rendered("raw", theirs), shown)
        self.assertNotIn(b"\x7f", self.rendered("json", theirs))
        self.assertNotIn(b"\xc2\x9b", self.rendered("json", theirs))

    def test_a_pipe_gets_every_byte(self) -> None:
        """Nothing is changed on the way to a program."""
        reads, writes = os.pipe()
        self.addCleanup(os.close, reads)
        self.addCleanup(os.close, writes)
        self.assertEqual(self.rendered("raw", writes), b"".join(m.payload + b"\n" for m in self.MESSAGES if m.payload))

    def test_complaints(self) -> None:
        """Words that come from elsewhere are written out in errors as well."""
        self.patch(sys, "stderr", stream := io.StringIO())
        complain("topic '\x1b[31m' is not there")
        self.assertEqual(stream.getvalue(), "logd: topic '\\x1b[31m' is not there\n")


class TablesTests(SynchronousTestCase):
    """show()."""

    def shown(
        self, stream: io.StringIO, rows: list[tuple[object, ...]], columns: Sequence[str] = ("topic", "bytes")
    ) -> str:
        """What is printed of rows on a stream."""
        self.patch(sys, "stdout", stream)
        with mock.patch.dict(os.environ, ORDINARY):
            show(columns, rows)
        return unstyle(stream.getvalue())

    def test_script(self) -> None:
        """A script gets values with tabs between them, and no heading."""
        self.assertEqual(self.shown(io.StringIO(), [("t", 12345), ("u", None)]), "t\t12345\nu\t\n")

    def test_person(self) -> None:
        """A person gets a heading and numbers that can be read."""
        lines = [line.split() for line in self.shown(Terminal(), [("t", 12345), ("u", 1)]).splitlines()]
        self.assertEqual(lines, [["topic", "bytes"], ["t", "12,345"], ["u", "1"]])

    def test_narrow(self) -> None:
        """In eighty columns long texts are folded, not numbers and headings; what nobody has is not there."""
        self.patch(sys, "stdout", stream := Terminal())
        columns = ["topic", "partition", "position", "log end", "lag bytes", "lag messages", "lag seconds", "owner"]
        rows = [("clicks", number, 1 << 30, 1 << 31, 1 << 30, None, 12.5, "host-12345-abcdef01-0") for number in (0, 1)]
        with mock.patch.dict(os.environ, {**ORDINARY, "COLUMNS": "80"}):
            show([*columns, "error"], [(*row, None) for row in rows])
        shown = unstyle(stream.getvalue())
        self.assertLessEqual(max(map(len, shown.splitlines())), 80)
        for word in ("partition", "position", "1,073,741,824", "2,147,483,648", "12.5"):
            self.assertIn(word, shown.split())
        for word in ("messages", "error"):
            self.assertNotIn(word, shown)

    def test_brackets(self) -> None:
        """What stands in brackets is text: it is shown, and not taken for a style, or for an error in one."""
        for text in ("[error] at [/x]", "[bold]x", ":smile:"):
            self.assertIn(text, self.shown(Terminal(), [(text, 1)]))

    def test_too_narrow(self) -> None:
        """Numbers and addresses are whole, however many columns there are; a long text is folded, and whole as well."""
        numbers = (1_234_567_890,) * 8
        text = "".join(f"{number:04}" for number in range(100))
        shown = self.shown(Terminal(), [(*numbers, "127.0.0.1:6667", text)], [*"abcdefgh", "address", "text"])
        self.assertEqual(shown.count("1,234,567,890"), 8)
        self.assertIn("127.0.0.1:6667", shown)
        self.assertEqual("".join(line[-21:] for line in shown.splitlines()[1:]).replace(" ", ""), text)

    def test_empty_columns(self) -> None:
        """A person is not shown columns that no row has anything for; a script counts on all of them."""
        rows: list[tuple[object, ...]] = [("t", None, "", 1.5), ("u", None, None, None)]
        columns = ("topic", "key", "error", "seconds")
        lines = [line.split() for line in self.shown(Terminal(), rows, columns).splitlines()]
        self.assertEqual(lines, [["topic", "seconds"], ["t", "1.5"], ["u"]])
        self.assertEqual(self.shown(io.StringIO(), rows, columns), "t\t\t\t1.5\nu\t\t\t\n")

    def test_nothing(self) -> None:
        """No rows are no lines, but for a person's heading."""
        self.assertEqual(self.shown(io.StringIO(), []), "")
        self.assertEqual(self.shown(Terminal(), []).split(), ["topic", "bytes"])


class ProgressTests(SynchronousTestCase):
    """ProgressLine."""

    def shown(self, stream: io.StringIO, quiet: bool = False, total: int | None = 100) -> str:
        """What appears on stderr while something goes on."""
        self.patch(sys, "stderr", stream)
        with mock.patch.dict(os.environ, ORDINARY), ProgressLine("to clicks", total, quiet) as progress:
            progress.advance(1234, 50)
        return unstyle(stream.getvalue())

    def test_person(self) -> None:
        """A person sees what is going on and how far it is, whether the end is known or not."""
        for total in (100, None):
            text = self.shown(Terminal(), total=total)
            self.assertIn("to clicks", text)
            self.assertIn("1,234 messages", text)

    def test_script(self) -> None:
        """Nothing is written where nobody looks, or when quiet was asked for."""
        self.assertEqual(self.shown(io.StringIO()), "")
        self.assertEqual(self.shown(Terminal(), quiet=True), "")

    def test_described(self) -> None:
        """What is in front of the figures can change, and a line for a person on the way is not overwritten."""
        self.patch(sys, "stderr", Terminal())
        terminal = sys.stderr
        with mock.patch.dict(os.environ, ORDINARY), ProgressLine("to clicks") as progress:
            progress.describe("3 files to clicks")
            progress.advance(7)
            print("a notice", file=sys.stderr)
        assert isinstance(terminal, Terminal)
        text = unstyle(terminal.getvalue())
        self.assertIn("3 files to clicks 7 messages", text)
        self.assertIn("a notice\n", text)
