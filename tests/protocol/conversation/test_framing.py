"""Tests of logd.protocol.conversation.framing."""

from __future__ import annotations

import time
import tracemalloc

from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from logd.errors import ProtocolViolation
from logd.protocol.conversation.framing import FrameBuffer


def frames_of(buffer: FrameBuffer, data: bytes) -> list[bytes]:
    """Feed ``data`` to the buffer and return the body of each frame."""
    return [bytes(frame[start:stop]) for frame, start, stop in buffer.feed(data)]


def framed(body: bytes) -> bytes:
    """Put a size before ``body``."""
    return len(body).to_bytes(4, "big") + body


class FrameBufferTests(SynchronousTestCase):
    """Frames cut out of a stream."""

    @settings(deadline=None, max_examples=200)
    @given(st.lists(st.binary(min_size=1, max_size=30), max_size=8), st.data())
    def test_frames_do_not_depend_on_chunks(self, bodies: list[bytes], data: st.DataObject) -> None:
        """Each comes out with the chunk that completes it, and only the rest is kept."""
        stream = b"".join(map(framed, bodies))
        cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=12)))
        buffer = FrameBuffer(30)
        got: list[bytes] = []
        for start, stop in zip([0, *cuts], [*cuts, len(stream)], strict=True):
            got += frames_of(buffer, stream[start:stop])
            done, whole = 0, 0
            for body in bodies:
                if done + 4 + len(body) > stop:
                    break
                done += 4 + len(body)
                whole += 1
            self.assertEqual(got, bodies[:whole])
            self.assertEqual(buffer.kept_bytes, stop - done)

    def test_frames_come_out_of_single_bytes(self) -> None:
        """Each comes out at its last byte, also where the size field itself is cut."""
        buffer = FrameBuffer()
        counts = [len(frames_of(buffer, bytes((byte,)))) for byte in framed(b"ab") + framed(b"c")]
        self.assertEqual(counts, [0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1])

    def test_a_size_out_of_range_is_refused(self) -> None:
        """In any chunks; the error names the size and the limit, which is allowed itself."""
        for size in (0, -1, 11, 0x7FFFFFFF):
            data = size.to_bytes(4, "big", signed=True)
            for chunks in ([data], [data[:1], data[1:]], [framed(b"abc") + data]):
                buffer = FrameBuffer(10)
                with self.assertRaises(ProtocolViolation) as caught:
                    for chunk in chunks:
                        frames_of(buffer, chunk)
                self.assertIn(f"{size} bytes, 1 to 10 are allowed", str(caught.exception))
        self.assertEqual(frames_of(FrameBuffer(10), framed(bytes(10))), [bytes(10)])

    def test_frames_before_a_bad_size_come_out_first(self) -> None:
        """They are sound requests, and are answered before the connection is closed."""
        frames = FrameBuffer(10).feed(framed(b"abc") + bytes(4))
        data, start, stop = next(frames)
        self.assertEqual(data[start:stop], b"abc")
        self.assertRaises(ProtocolViolation, next, frames)

    def test_a_frame_in_one_chunk_is_not_copied(self) -> None:
        """It is a range of the chunk: producers send megabytes, and most frames arrive whole."""
        data = framed(b"abc") * 3 + b"\0"
        self.assertEqual([frame is data for frame, _, _ in FrameBuffer().feed(data)], [True] * 3)

    def test_a_frame_outlives_the_next_feed(self) -> None:
        """One that was put together from chunks keeps its bytes when more arrive."""
        buffer = FrameBuffer()
        frames_of(buffer, framed(b"abc")[:5])
        (frame, start, stop) = next(iter(list(buffer.feed(b"bc" + framed(b"xyz")[:6]))))
        frames_of(buffer, b"z")
        self.assertEqual(bytes(frame[start:stop]), b"abc")

    def test_an_announced_size_allocates_nothing(self) -> None:
        """Peers could otherwise take 16 MiB each by four bytes."""
        buffer = FrameBuffer()
        tracemalloc.start()
        frames_of(buffer, (16 << 20).to_bytes(4, "big"))
        frames_of(buffer, b"x")
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        self.assertLess(peak, 20_000)
        self.assertEqual(buffer.kept_bytes, 5)

    def assert_linear(self, stream: bytes, chunk_bytes: int) -> None:
        """Check that cutting takes seconds: if each feed moved the kept bytes, it would take minutes."""
        buffer = FrameBuffer()
        started = time.process_time()
        count = 0
        for at in range(0, len(stream), chunk_bytes):
            for _ in buffer.feed(stream[at : at + chunk_bytes]):
                count += 1
            self.assertLess(time.process_time() - started, 5)
        self.assertGreater(count, 0)

    def test_time_is_linear_for_a_large_frame(self) -> None:
        """The frame of 16 MB arrives in chunks of 128 bytes."""
        self.assert_linear(framed(bytes(16_000_000)), 128)

    def test_time_is_linear_for_many_frames(self) -> None:
        """200,000 small frames arrive in one chunk, and in chunks that never end with a frame."""
        stream = framed(b"x") * 200_000
        self.assert_linear(stream, len(stream))
        self.assert_linear(stream, 65_537)
