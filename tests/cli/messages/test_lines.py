"""Tests of reading lines."""

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
    """Bytes become lines."""

    @settings(deadline=None)
    @given(st.lists(st.binary(max_size=20).map(lambda data: data.replace(b"x", b"\n")), max_size=20))
    def test_any_division(self, chunks: list[bytes]) -> None:
        """However the bytes arrive, the lines are those of the whole, and nothing but newlines is taken away."""
        splitter = LineSplitter("f", 1000)
        found = [line for chunk in chunks for line in splitter.feed(chunk)] + splitter.finish()
        whole = b"".join(chunks)
        expected = whole.split(b"\n")
        if not expected[-1]:
            expected.pop()
        self.assertEqual(found, expected)
        self.assertEqual(splitter.count, len(expected))

    def test_carriage_returns_stay(self) -> None:
        """Only the newline divides; other line ends of text are ordinary bytes."""
        splitter = LineSplitter("f", 1000)
        self.assertEqual(splitter.feed(b"a\r\n\x0b\x0c\x1c\x85\r\n\n"), [b"a\r", b"\x0b\x0c\x1c\x85\r", b""])
        self.assertEqual(splitter.finish(), [])

    def test_too_long(self) -> None:
        """A line above the limit is named by its number, whether its end has come or not."""
        for chunks in ([b"a\nbb\n", b"c\n12345\n"], [b"a\nbb\n", b"c\n123", b"45"], [b"a\nbb\n", b"c\n123", b"45\nd"]):
            splitter = LineSplitter("some.log", 4)
            with self.assertRaisesRegex(InputLineTooLong, r"line 4 of some\.log is longer than 4 bytes"):
                for chunk in chunks:
                    splitter.feed(chunk)

    @settings(deadline=None)
    @given(st.lists(st.binary(max_size=12).map(lambda data: data.replace(b"x", b"\n")), max_size=12))
    def test_skipped(self, chunks: list[bytes]) -> None:
        """However the bytes arrive, exactly the lines that are too long are left out, and they are counted."""
        splitter = LineSplitter("f", 4, skip=True)
        found = [line for chunk in chunks for line in splitter.feed(chunk)] + splitter.finish()
        expected = b"".join(chunks).split(b"\n")
        if not expected[-1]:
            expected.pop()
        self.assertEqual(found, [line for line in expected if len(line) <= 4])
        self.assertEqual((splitter.skipped, splitter.count), (len(expected) - len(found), len(expected)))

    def test_longest(self) -> None:
        """A line of exactly the limit is a line."""
        splitter = LineSplitter("f", 4)
        self.assertEqual(splitter.feed(b"12") + splitter.feed(b"34\n1234"), [b"1234"])
        self.assertEqual(splitter.finish(), [b"1234"])


class ReadLinesTests(TestCase):
    """Files become batches of lines."""

    def setUp(self) -> None:
        """A thread to read on, and small pieces."""
        net: Any = reactor
        self.thread = BackgroundThread(net)
        self.patch(lines, "CHUNK_BYTES", 7)

    def file(self, content: bytes) -> str:
        """Write a file and return its path."""
        path = Path(self.mktemp())
        path.write_bytes(content)
        return str(path)

    async def test_files(self) -> None:
        """Files follow each other; the end of a file ends its last line."""
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

    async def test_pieces(self) -> None:
        """No more than a piece of a file is held."""
        path = self.file(b"12345\n" * 100)
        batches = [batch async for batch in read_lines(self.thread, [path], 100)]
        self.assertLessEqual(max(len(batch.lines) for batch in batches), 2)
        self.assertEqual(sum(len(batch.lines) for batch in batches), 100)

    async def test_pipe(self) -> None:
        """Lines of a pipe come when they are written, not when the pipe is closed; the reactor turns meanwhile."""
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

    async def test_unreadable(self) -> None:
        """A file that is not there, or a folder, is named."""
        for path, words in (("nowhere.log", "No such file"), (".", "Is a directory")):
            with self.assertRaises(LogdError) as caught:
                _ = [batch async for batch in read_lines(self.thread, [path], 100)]
            self.assertIn(f"{path} cannot be read: {words}", str(caught.exception))

    def test_total(self) -> None:
        """What has no size makes the total unknown."""
        self.assertEqual(total_bytes([self.file(b"12"), self.file(b"345")]), 5)
        self.assertIsNone(total_bytes([self.file(b"12"), "-"]))
