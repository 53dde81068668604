"""Tests of the output of commands: for a person at a terminal, and for a script."""

from __future__ import annotations

import io
import os
import select
import sys
from collections.abc import Sequence
from threading import Thread
from unittest import mock

from click import unstyle
from twisted.trial.unittest import SynchronousTestCase

from logd.cli.terminal.exits import complain
from logd.cli.terminal.output import write_all
from logd.cli.terminal.progress import ProgressLine, clear_progress
from logd.cli.terminal.rendering import renderer
from logd.cli.terminal.tables import show, show_before_asking, show_line
from logd.protocol.message import Message
from tests.cli.terminal.doubles import Terminal

#: The environment of a command, wherever the tests themselves run.
ORDINARY = {"TERM": "xterm", "COLUMNS": "100", "NO_COLOR": "1"}


class ConsumedMessagesTests(SynchronousTestCase):
    """Messages of unknown producers as ``logd consume`` writes them."""

    MESSAGES = (Message(b"\x1b]0;owned\x07\xc2\x9b2J red\ttab\r\x7f", key=b"k"), Message("gr\xfc\xdfe".encode()))

    def rendered(self, shape: str, descriptor: int) -> bytes:
        """Return the bytes that are written to an open file."""
        return renderer(shape, descriptor)(self.MESSAGES)

    def test_control_characters_are_written_out_at_a_terminal(self) -> None:
        """Tabs, newlines and letters of every language stay."""
        ours, theirs = os.openpty()
        self.addCleanup(os.close, ours)
        self.addCleanup(os.close, theirs)
        shown = rb"\x1b]0;owned\x07\xc2\x9b2J red" + b"\ttab" + rb"\x0d\x7f" + "\ngr\xfc\xdfe\n".encode()
        self.assertEqual(self.rendered("raw", theirs), shown)
        self.assertNotIn(b"\x7f", self.rendered("json", theirs))
        self.assertNotIn(b"\xc2\x9b", self.rendered("json", theirs))

    def test_a_pipe_gets_every_byte(self) -> None:
        """A program needs the messages as they were sent."""
        reads, writes = os.pipe()
        self.addCleanup(os.close, reads)
        self.addCleanup(os.close, writes)
        self.assertEqual(self.rendered("raw", writes), b"".join(m.payload + b"\n" for m in self.MESSAGES if m.payload))

    def test_control_characters_are_written_out_in_errors(self) -> None:
        """An error may quote a name that was made by another user."""
        self.patch(sys, "stderr", stream := io.StringIO())
        complain("topic '\x1b[31m' is not there")
        self.assertEqual(stream.getvalue(), "logd: topic '\\x1b[31m' is not there\n")


class OutputTests(SynchronousTestCase):
    """``write_all``."""

    def test_a_pipe_that_another_program_has_made_non_blocking(self) -> None:
        """A slow reader gets everything all the same."""
        reads, writes = os.pipe()
        self.addCleanup(os.close, reads)
        self.addCleanup(os.close, writes)
        os.set_blocking(writes, False)
        data = bytes(range(256)) * 4096
        thread = Thread(target=write_all, args=(writes, data), daemon=True)
        thread.start()
        found = b""
        while len(found) < len(data):
            readable, _, _ = select.select((reads,), (), (), 60)
            self.assertTrue(readable, "the writer has given up")
            found += os.read(reads, 1 << 16)
        thread.join()
        self.assertEqual(found, data)


class TablesTests(SynchronousTestCase):
    """``show``."""

    def shown(
        self, stream: io.StringIO, rows: list[tuple[object, ...]], columns: Sequence[str] = ("topic", "bytes")
    ) -> str:
        """Return the text that is printed of rows on a stream."""
        self.patch(sys, "stdout", stream)
        with mock.patch.dict(os.environ, ORDINARY):
            show(columns, rows)
        return unstyle(stream.getvalue())

    def test_a_script_gets_values_between_tabs(self) -> None:
        """There is no heading, and no separator inside a number."""
        self.assertEqual(self.shown(io.StringIO(), [("t", 12345), ("u", None)]), "t\t12345\nu\t\n")

    def test_a_person_gets_a_heading_and_readable_numbers(self) -> None:
        """Large numbers are grouped by thousands."""
        lines = [line.split() for line in self.shown(Terminal(), [("t", 12345), ("u", 1)]).splitlines()]
        self.assertEqual(lines, [["topic", "bytes"], ["t", "12,345"], ["u", "1"]])

    def test_a_narrow_table_folds_long_texts(self) -> None:
        """Numbers and headings stay whole, and columns without values are left out."""
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

    def test_text_in_brackets_is_shown_as_it_is(self) -> None:
        """The table's library would take it for a style, or for an error in one."""
        for text in ("[error] at [/x]", "[bold]x", ":smile:"):
            self.assertIn(text, self.shown(Terminal(), [(text, 1)]))

    def test_control_characters_in_cells_are_written_out(self) -> None:
        """The names that clients give themselves command no terminal, and make no line or column for a script."""
        rows: list[tuple[object, ...]] = [("a\x1b]0;owned\x07\x9b2J", "one\ttwo\nthree")]
        shown = self.shown(Terminal(), rows)
        self.assertIn("a\\x1b]0;owned\\x07\\xc2\\x9b2J", shown)
        self.assertEqual([each for each in shown if not each.isprintable() and each != "\n"], [])
        self.assertEqual(self.shown(io.StringIO(), rows), "a\\x1b]0;owned\\x07\\xc2\\x9b2J\tone\\ttwo\\nthree\n")

    def test_control_characters_in_a_line_are_written_out_at_a_terminal(self) -> None:
        """JSON keeps some of them as they are; a script gets the line unchanged."""
        for stream, shown in ((Terminal(), r'{"text": "\xc2\x9b2J\x7f"}'), (io.StringIO(), '{"text": "\x9b2J\x7f"}')):
            self.patch(sys, "stdout", stream)
            show_line('{"text": "\x9b2J\x7f"}')
            self.assertEqual(stream.getvalue(), shown + "\n")

    def test_numbers_and_addresses_are_never_folded(self) -> None:
        """However few columns there are, the long text is folded instead and stays complete."""
        numbers = (1_234_567_890,) * 8
        text = "".join(f"{number:04}" for number in range(100))
        shown = self.shown(Terminal(), [(*numbers, "127.0.0.1:6667", text)], [*"abcdefgh", "address", "text"])
        self.assertEqual(shown.count("1,234,567,890"), 8)
        self.assertIn("127.0.0.1:6667", shown)
        self.assertEqual("".join(line[-21:] for line in shown.splitlines()[1:]).replace(" ", ""), text)

    def test_empty_columns_are_hidden_from_a_person(self) -> None:
        """A script counts on all of them."""
        rows: list[tuple[object, ...]] = [("t", None, "", 1.5), ("u", None, None, None)]
        columns = ("topic", "key", "error", "seconds")
        lines = [line.split() for line in self.shown(Terminal(), rows, columns).splitlines()]
        self.assertEqual(lines, [["topic", "seconds"], ["t", "1.5"], ["u"]])
        self.assertEqual(self.shown(io.StringIO(), rows, columns), "t\t\t\t1.5\nu\t\t\t\n")

    def test_a_question_about_rows_leaves_the_output_to_json(self) -> None:
        """The rows that a person is to agree to are on stderr then."""
        for as_json, out, err in ((True, "", "t\t1\n"), (False, "t\t1\n", "")):
            self.patch(sys, "stdout", stdout := io.StringIO())
            self.patch(sys, "stderr", stderr := io.StringIO())
            show_before_asking(("topic", "bytes"), [("t", 1)], as_json)
            self.assertEqual((stdout.getvalue(), stderr.getvalue()), (out, err))

    def test_a_table_without_rows_has_no_lines(self) -> None:
        """A person sees the heading alone."""
        self.assertEqual(self.shown(io.StringIO(), []), "")
        self.assertEqual(self.shown(Terminal(), []).split(), ["topic", "bytes"])


class ProgressTests(SynchronousTestCase):
    """``ProgressLine``."""

    def shown(self, stream: io.StringIO, quiet: bool = False, total: int | None = 100) -> str:
        """Return the text that appears on stderr while something goes on."""
        self.patch(sys, "stderr", stream)
        with mock.patch.dict(os.environ, ORDINARY), ProgressLine("to clicks", total, quiet) as progress:
            progress.advance(1234, 50)
        return unstyle(stream.getvalue())

    def test_a_person_sees_the_progress(self) -> None:
        """The end may be known or not."""
        for total in (100, None):
            text = self.shown(Terminal(), total=total)
            self.assertIn("to clicks", text)
            self.assertIn("1,234 messages", text)

    def test_a_line_that_is_cleared_leaves_the_terminal_in_order(self) -> None:
        """A process that ends at once has no other way to show the cursor again; what follows changes nothing."""
        self.patch(sys, "stderr", terminal := Terminal())
        hidden, shown = "\x1b[?25l", "\x1b[?25h"
        with mock.patch.dict(os.environ, ORDINARY), ProgressLine("to clicks") as progress:
            self.assertIn(hidden, terminal.getvalue())
            clear_progress()
            before = terminal.getvalue()
            self.assertEqual((before.count(hidden), before.count(shown)), (1, 1))
            progress.advance(7)
        self.assertEqual(terminal.getvalue(), before)

    def test_a_script_sees_no_progress(self) -> None:
        """With --quiet a person does not, either."""
        self.assertEqual(self.shown(io.StringIO()), "")
        self.assertEqual(self.shown(Terminal(), quiet=True), "")

    def test_the_text_before_the_figures_can_change(self) -> None:
        """A line printed meanwhile is not overwritten."""
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
