"""Tests of logd.cli.messages.lines."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.internet import reactor
from twisted.trial.unittest import SynchronousTestCase, TestCase

from logd.cli.messages import lines
from logd.cli.messages.lines import InputLineTooLong, LineSplitter, read_lines, total_bytes
from logd.cli.terminal.blocking_calls import BackgroundThread
from logd.errors import LogdError


class LineSplitterTests(SynchronousTestCase):
    """``LineSplitter``."""

    @settings(deadline=None)
    @given(st.lists(st.binary(max_size=20).map(lambda data: data.replace(b"x", b"\n")), max_size=20))
    def test_lines_do_not_depend_on_their_pieces(self, chunks: list[bytes]) -> None:
        """Nothing but newlines is taken away."""
        splitter = LineSplitter("f", 1000)
        found = [line for chunk in chunks for line in splitter.feed(chunk)] + splitter.finish()
        whole = b"".join(chunks)
        expected = whole.split(b"\n")
        if not expected[-1]:
            expected.pop()
        self.assertEqual(found, expected)
        self.assertEqual(splitter.count, len(expected))

    def test_only_newlines_divide_lines(self) -> None:
        """Other line ends of text are ordinary bytes."""
        splitter = LineSplitter("f", 1000)
        self.assertEqual(splitter.feed(b"a\r\n\x0b\x0c\x1c\x85\r\n\n"), [b"a\r", b"\x0b\x0c\x1c\x85\r", b""])
        self.assertEqual(splitter.finish(), [])

    def test_a_line_too_long_is_named_by_its_number(self) -> None:
        """The error comes whether the line's end was read or not."""
        for chunks in ([b"a\nbb\n", b"c\n12345\n"], [b"a\nbb\n", b"c\n123", b"45"], [b"a\nbb\n", b"c\n123", b"45\nd"]):
            splitter = LineSplitter("some.log", 4)
            with self.assertRaisesRegex(InputLineTooLong, r"line 4 of some\.log is longer than 4 bytes"):
                for chunk in chunks:
                    splitter.feed(chunk)

    @settings(deadline=None)
    @given(st.lists(st.binary(max_size=12).map(lambda data: data.replace(b"x", b"\n")), max_size=12))
    def test_long_lines_are_skipped_and_counted(self, chunks: list[bytes]) -> None:
        """Exactly those above the limit are left out, in whatever pieces they arrive."""
        splitter = LineSplitter("f", 4, skip=True)
        found = [line for chunk in chunks for line in splitter.feed(chunk)] + splitter.finish()
        expected = b"".join(chunks).split(b"\n")
        if not expected[-1]:
            expected.pop()
        self.assertEqual(found, [line for line in expected if len(line) <= 4])
        self.assertEqual((splitter.skipped, splitter.count), (len(expected) - len(found), len(expected)))

    def test_a_line_may_have_exactly_the_limit(self) -> None:
        """The limit is one of the payload, without the newline."""
        splitter = LineSplitter("f", 4)
        self.assertEqual(splitter.feed(b"12") + splitter.feed(b"34\n1234"), [b"1234"])
        self.assertEqual(splitter.finish(), [b"1234"])


class ReadLinesTests(TestCase):
    """``read_lines`` and ``total_bytes``."""

    def setUp(self) -> None:
        """Make a thread to read on, and small pieces."""
        net: Any = reactor
        self.thread = BackgroundThread(net)
        self.patch(lines, "CHUNK_BYTES", 7)

    def file(self, content: bytes) -> str:
        """Write a file and return its path."""
        path = Path(self.mktemp())
        path.write_bytes(content)
        return str(path)

    async def test_files_are_read_one_after_another(self) -> None:
        """The end of a file ends its last line, and lines are numbered in each."""
        one, two = self.file(b"first line\nsecond"), self.file(b"third\n\nfifth\n")
        batches = [batch async for batch in read_lines(self.thread, [one, two], 100)]
        self.assertEqual(
            [
                (batch.source, batch.first_line + index, line)
                for batch in batches
                for index, line in enumerate(batch.lines)
            ],
            [(one, 1, b"first line"), (one, 2, b"second"), (two, 1, b"third"), (two, 2, b""), (two, 3, b"fifth")],
        )
        self.assertEqual(sum(batch.bytes_read for batch in batches), total_bytes([one, two]))

    async def test_only_a_piece_of_a_file_is_held(self) -> None:
        """Files may be larger than the memory."""
        path = self.file(b"12345\n" * 100)
        batches = [batch async for batch in read_lines(self.thread, [path], 100)]
        self.assertLessEqual(max(len(batch.lines) for batch in batches), 2)
        self.assertEqual(sum(len(batch.lines) for batch in batches), 100)

    async def test_a_pipe_that_does_not_block_is_waited_for(self) -> None:
        """Another program that has the same terminal or pipe may have set it so."""
        reading, writing = os.pipe()
        os.set_blocking(reading, False)
        net: Any = reactor
        net.callLater(0.05, os.write, writing, b"line\n")
        net.callLater(0.1, os.close, writing)
        self.patch(os, "open", lambda *_: reading)
        batches = [batch.lines async for batch in read_lines(self.thread, ["pipe"], 100)]
        self.assertEqual(batches, [[b"line"]])

    async def test_lines_of_a_pipe_come_when_written(self) -> None:
        """The reactor goes on while the pipe is silent."""
        path = self.mktemp()
        os.mkfifo(path)
        batches = read_lines(self.thread, [path], 100)
        net: Any = reactor
        descriptors: list[int] = []

        def write() -> None:
            descriptors.append(os.open(path, os.O_WRONLY))
            os.write(descriptors[0], b"now\n")

        net.callInThread(write)  # opening waits for the reader
        batch = await batches.__anext__()
        self.assertEqual(batch.lines, [b"now"])
        os.close(descriptors[0])
        with self.assertRaises(StopAsyncIteration):
            await batches.__anext__()

    async def test_an_unreadable_file_is_named(self) -> None:
        """The path may be missing, or one of a folder."""
        for path, words in (("nowhere.log", "No such file"), (".", "Is a directory")):
            with self.assertRaises(LogdError) as caught:
                _ = [batch async for batch in read_lines(self.thread, [path], 100)]
            self.assertIn(f"{path} cannot be read: {words}", str(caught.exception))

    def test_a_pipe_makes_the_total_unknown(self) -> None:
        """Progress is then shown without an end."""
        self.assertEqual(total_bytes([self.file(b"12"), self.file(b"345")]), 5)
        self.assertIsNone(total_bytes([self.file(b"12"), "-"]))
