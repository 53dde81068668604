"""Parts of the tests that compare the compiled loops with those in Python."""

from __future__ import annotations

from collections.abc import Callable
from struct import pack
from typing import Any
from zlib import crc32

from attrs import asdict
from twisted.trial.unittest import SynchronousTestCase

from logd.protocol.batch_layout import BATCH_HEAD_BYTES
from logd.protocol.loops import python
from logd.protocol.loops.openbatch import OpenBatch
from logd.protocol.loops.openwrapper import OpenWrapper
from tests.log.entries import crc32c
from tests.protocol.loops.implementations import IMPLEMENTATIONS, NOT_COMPILED


def signed(entry: bytes) -> bytes:
    """Return an entry with the checksums that its bytes need, where it is long enough for them."""
    data = bytearray(entry)
    magic = data[4] if len(data) > 9 else -1
    if magic in (0, 2):
        data[5:9] = pack(">I", crc32(data[9:]))
    elif magic == 1:
        data[6:10] = pack(">I", crc32(data[10:]))
    elif magic == 3 and len(data) >= BATCH_HEAD_BYTES:
        inner = int.from_bytes(data[8:12], "big", signed=True)
        data[17:21] = pack(">I", crc32c(bytes(data[21 : max(12 + inner, 21)])))
        data[5:8] = crc32(data[8:17], crc32(data[:5])).to_bytes(4, "big")[1:]
    return bytes(data)


def described(value: object) -> object:
    """Return a value with all its parts and their types, in a form that compares them."""
    if isinstance(value, OpenBatch | OpenWrapper):
        fields = asdict(value, recurse=False)
        return type(value).__name__, {name: described(each) for name, each in fields.items()}
    if isinstance(value, Exception):
        return type(value), str(value), {name: repr(each) for name, each in vars(value).items()}
    if isinstance(value, tuple | list):
        return type(value), [described(each) for each in value]
    return type(value), repr(value)


def outcome(call: Callable[[], object]) -> object:
    """Return what a call returned or raised."""
    try:
        return described(call())
    except Exception as error:
        return "raised", described(error)


class TwinsTestCase(SynchronousTestCase):
    """Tests that call both implementations."""

    skip = NOT_COMPILED
    compiled: Any = IMPLEMENTATIONS.get("compiled")

    def assert_same(self, name: str, *given: Any, **named: Any) -> None:
        """Check that both implementations of a loop do the same."""
        self.assertEqual(
            outcome(lambda: getattr(self.compiled, name)(*given, **named)),
            outcome(lambda: getattr(python, name)(*given, **named)),
        )

    def assert_decoded_alike(self, data: bytes, **named: Any) -> None:
        """Check that both implementations decode a set to its end alike, in as many calls as the limits need."""
        results: dict[str, Any] = {"compiled": None, "python": None}
        at, position = 0, 20
        for _ in range(60):
            for name, loops in IMPLEMENTATIONS.items():
                opened = results[name].opened if results[name] is not None else None
                results[name] = loops.decode_set(
                    data, position, begin=at, topic="t", partition=4, opened=opened, **named
                )
            found = results["python"]
            self.assertEqual(described(results["compiled"]), described(found))
            stuck = found.consumed == at and found.opened is None
            position += found.consumed - at
            at = found.consumed
            if found.error is not None or stuck:
                break

    def assert_columns_alike(self, data: bytes, **named: Any) -> None:
        """Check that both implementations make a set columns alike, in as many calls as the limits need.

        Where there are none, both go on behind one more entry of decode_set, and with the batch that is opened.
        """
        results: dict[str, Any] = {}
        at, position = 0, 20
        opened: dict[str, Any] = dict.fromkeys(IMPLEMENTATIONS)
        for _ in range(60):
            for name, loops in IMPLEMENTATIONS.items():
                results[name] = loops.columns_of_set(data, position, begin=at, opened=opened[name], **named)
            self.assertEqual(described(results["compiled"]), described(results["python"]))
            if not results["python"].messages:
                for name, loops in IMPLEMENTATIONS.items():
                    before = results[name]
                    results[name] = loops.decode_set(
                        data, position + before.consumed - at, begin=before.consumed, limit=1, opened=before.opened
                    )
                self.assertEqual(described(results["compiled"]), described(results["python"]))
            found = results["python"]
            if found.consumed == at and found.opened is None:
                break
            position += found.consumed - at
            at = found.consumed
            opened = {
                name: result.opened if isinstance(result.opened, OpenBatch) else None
                for name, result in results.items()
            }
            if any(isinstance(result.opened, OpenWrapper) for result in results.values()):
                break
