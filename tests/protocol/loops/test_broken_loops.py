"""Tests of the tests of the loops: an implementation with one bug does not pass them."""

from __future__ import annotations

import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any
from unittest import TestLoader, TestResult

from attrs import field, frozen
from twisted.trial.unittest import SynchronousTestCase

from logd.errors import InvalidMessage, MessageTooLarge
from logd.protocol.loops import python
from logd.protocol.loops.results import Checked, JoinedFrames
from tests.protocol.kafka import test_kafka_loops
from tests.protocol.loops import (
    test_batches,
    test_columns,
    test_damage,
    test_lengths,
    test_loops,
    test_scanning,
    test_wrapped_sets,
    test_wrapper_heads,
)
from tests.protocol.loops.implementations import LoopsTestCase

MODULES = (
    test_kafka_loops,
    test_batches,
    test_columns,
    test_damage,
    test_lengths,
    test_loops,
    test_scanning,
    test_wrapped_sets,
    test_wrapper_heads,
)


def accepting(refusal: str) -> Callable[..., Checked]:
    """Return a check_set that accepts sets which are refused with these words."""

    def check_set(data: bytes, *limits: Any) -> Checked:
        try:
            return python.check_set(data, *limits)
        except (InvalidMessage, MessageTooLarge) as error:
            if refusal in str(error):
                return Checked(1, -1)
            raise

    return check_set


def replacing(name: str, **fields: Any) -> Callable[..., Any]:
    """Return the loop of that name with some fields of its result fixed."""
    loop = getattr(python, name)
    return lambda *given, **named: loop(*given, **named)._replace(**fields)


def changing(name: str, **arguments: Any) -> Callable[..., Any]:
    """Return the loop of that name, which gets other arguments than it is given."""
    loop = getattr(python, name)
    return lambda *given, **named: loop(*given, **{**named, **arguments})


def without_last(name: str) -> Callable[..., Any]:
    """Return the loop of that name without the last item of its result."""
    loop = getattr(python, name)
    return lambda *given, **named: loop(*given, **named)[:-1]


JOINED_NOTHING = JoinedFrames(0, b"", [])

BROKEN: dict[str, dict[str, Callable[..., Any]]] = {
    "encodes nothing": {"encode_set": lambda messages: b""},
    "encodes wrong checksums": {"encode_set": lambda messages: python.encode_set(messages)[:-1] + b"?"},
    "refuses nothing": {"check_set": accepting("")},
    "takes any checksum": {"check_set": accepting("checksum")},
    "takes any length": {"check_set": accepting("is below")},
    "takes any magic": {"check_set": accepting("magic")},
    "takes any codec": {"check_set": accepting("no consumer")},
    "takes gaps": {"check_set": accepting("gaps")},
    "takes any field": {"check_set": accepting("out of range")},
    "knows no limit": {"check_set": lambda data, *limits: python.check_set(data, 1 << 30)},
    "knows no limit of batches": {"check_set": lambda data, limit, *_: python.check_set(data, limit)},
    "counts one entry": {"check_set": replacing("check_set", messages=1)},
    "finds no time in a check": {"check_set": replacing("check_set", newest=-1)},
    "finds no batches": {"check_set": replacing("check_set", has_batches=False)},
    "finds no leader epochs": {"check_set": replacing("check_set", has_epochs=False)},
    "takes any batch": {"check_set": accepting("a batch with")},
    "encodes no records": {"encode_records": replacing("encode_records", data=b"")},
    "encodes no frames": {"encode_payload_frames": lambda head, payloads: b""},
    "encodes no payloads": {"encode_payloads": lambda payloads: b""},
    "encodes no records of payloads": {"encode_payload_records": replacing("encode_payload_records", data=b"")},
    "encodes no base time": {"encode_records": replacing("encode_records", base_time=0)},
    "encodes no newest time": {"encode_records": replacing("encode_records", max_time=0)},
    "decodes no errors": {"decode_set": replacing("decode_set", error=None)},
    "decodes no places": {"decode_set": replacing("decode_set", position=0)},
    "decodes no gaps": {"decode_set": replacing("decode_set", gaps=0)},
    "decodes no needs": {"decode_set": replacing("decode_set", needed=0)},
    "decodes no ends of errors": {"decode_set": replacing("decode_set", error_end=-1)},
    "decodes no messages": {"decode_set": replacing("decode_set", messages=[])},
    "decodes beyond its limit": {
        "decode_set": lambda *given, **named: python.decode_set(*given, **{**named, "limit": 1 << 20})
    },
    "decodes any wrapper": {
        "decode_set": lambda *given, **named: python.decode_set(*given, **{**named, "max_decompressed": 1 << 30})
    },
    "scans no damage": {"scan_set": replacing("scan_set", problem="")},
    "scans no time": {"scan_set": replacing("scan_set", newest=-1)},
    "scans no gaps": {"scan_set": replacing("scan_set", gaps=0)},
    "scans no boundaries": {"scan_set": replacing("scan_set", boundaries=[])},
    "scans to the end": {
        "scan_set": lambda data, begin=0, until=0, **named: python.scan_set(data, begin, **named),
    },
    "scans with its own checksum": {
        "scan_set": lambda *given, **named: python.scan_set(
            *given, **{name: value for name, value in named.items() if name != "checksums"}
        ),
    },
    "scans without a judge": {
        "scan_set": lambda *given, **named: python.scan_set(*given, **{**named, "readable": None}),
    },
    "has no columns of keys": {"columns_of_set": replacing("columns_of_set", keys=None)},
    "has no columns of times": {"columns_of_set": replacing("columns_of_set", times=None)},
    "has no columns of headers": {"columns_of_set": replacing("columns_of_set", headers=None)},
    "has no columns at all": {"columns_of_set": lambda *_, **__: python.columns_of_set(b"")},
    "has columns beyond its limit": {"columns_of_set": changing("columns_of_set", limit=1 << 20)},
    "has columns beyond its limit of bytes": {"columns_of_set": changing("columns_of_set", limit_bytes=1 << 30)},
    "has columns of unknown size": {"columns_of_set": replacing("columns_of_set", size=0)},
    "has columns without values": {"columns_of_set": changing("columns_of_set", include_values=False)},
    "has values in any case": {"columns_of_set": changing("columns_of_set", include_values=True)},
    "forgets the batch that it is in": {"columns_of_set": replacing("columns_of_set", opened=None)},
    "opens any batch": {"columns_of_set": changing("columns_of_set", max_decompressed=1 << 30)},
    "opens batches of any number": {"columns_of_set": changing("columns_of_set", max_decompressed_messages=1 << 30)},
    "ends too early": {"ends_of_set": without_last("ends_of_set")},
    "has too few heads": {"heads_of_set": without_last("heads_of_set")},
    "has no headers in common": {"summarize_messages": replacing("summarize_messages", headers=None)},
    "has no least time": {"summarize_messages": replacing("summarize_messages", least_time=-1)},
    "has no greatest time": {"summarize_messages": replacing("summarize_messages", greatest_time=-1)},
    "has no bytes": {"summarize_messages": replacing("summarize_messages", bytes=0)},
    "measures no payloads": {"payload_sizes": lambda messages: None},
    "measures no longest payload": {
        "payload_sizes": lambda messages: (python.payload_sizes(messages) or (0, 0))[:1] * 2
    },
    "joins nothing": {"join_frames": lambda *_, **__: None},
    "joins one frame": {"join_frames": lambda *given, **named: python.join_frames(*given, **named) or JOINED_NOTHING},
    "joins frames of any size": {"join_frames": changing("join_frames", frame_bytes=1 << 30)},
    "joins any number of frames": {"join_frames": changing("join_frames", most=1 << 30)},
    "finds batches of any size": {"find_batches": changing("find_batches", largest=1 << 30)},
    "finds any number of batches": {"find_batches": changing("find_batches", most_bytes=1 << 30)},
    "finds batches of any codec": {"find_batches": changing("find_batches", codecs=0xFF)},
    "verifies no batch": {"find_batches": changing("find_batches", verify=False)},
    "verifies every batch": {"find_batches": changing("find_batches", verify=True)},
    "sends batches as they are": {"wire_of_run": lambda data, position: data},
    "sends batches without a position": {"wire_of_run": lambda data, position: python.wire_of_run(data, 0)},
    "makes no records": {"records_of_set": replacing("records_of_set", records=b"")},
    "makes records without times": {"records_of_set": replacing("records_of_set", base_time=-1, max_time=-1)},
    "makes any number of records": {"records_of_set": changing("records_of_set", limit=1 << 30)},
    "makes records to the end": {"records_of_set": changing("records_of_set", until=1 << 30)},
    "slices nothing": {"slice_end": lambda data, *_: len(data)},
}


@frozen(order=True)
class Example:
    """A test of the loops, and the loops that it calls. The quickest are the least."""

    seconds: float
    name: str
    tests: type[LoopsTestCase] = field(order=False)
    called: frozenset[str] = field(order=False)

    def run_on(self, loops: object) -> TestResult:
        """Run it on an implementation."""
        return run_on(self.tests, self.name, loops)


def run_on(tests: type[LoopsTestCase], name: str, loops: object) -> TestResult:
    """Run a test on an implementation."""
    result = TestResult()
    type(tests.__name__, (tests,), {"loops": loops})(name).run(result)
    return result


def examples() -> list[Example]:
    """Return all tests of the loops, the quickest first, except properties, which take their time to find an example.

    Each is run on the pure loops, and has to pass: otherwise the failures of the broken ones would prove nothing.
    """
    found = []
    called: set[str] = set()

    def noting(name: str) -> Callable[..., Any]:
        def call(*given: Any, **named: Any) -> Any:
            called.add(name)
            return getattr(python, name)(*given, **named)

        return call

    noted = SimpleNamespace(**{name: noting(name) for name in python.__all__})
    for module in MODULES:
        for tests in tuple(vars(module).values()):  # a warning adds a registry of them to its module
            if isinstance(tests, type) and issubclass(tests, LoopsTestCase) and tests.__module__ == module.__name__:
                for name in TestLoader().getTestCaseNames(tests):
                    if hasattr(getattr(tests, name), "hypothesis"):
                        continue
                    called.clear()
                    began = time.process_time()
                    result = run_on(tests, name, noted)
                    if not result.wasSuccessful():
                        raise AssertionError(f"{name} fails on sound loops: {result.failures + result.errors}")
                    found.append(Example(time.process_time() - began, name, tests, frozenset(called)))
    return sorted(found)


class BrokenLoopsTests(SynchronousTestCase):
    """Implementations with one bug each."""

    def test_every_loop_has_a_bug_here(self) -> None:
        """A loop that is added must be added to the bugs."""
        self.assertEqual({name for broken in BROKEN.values() for name in broken}, set(python.__all__))

    def test_each_bug_fails_a_test(self) -> None:
        """The names of bugs that pass are listed: for them a test is missing."""
        tests = examples()
        self.assertGreater(len(tests), 40)
        sound = {name: getattr(python, name) for name in python.__all__}
        passed = []
        for what, broken in BROKEN.items():
            loops = SimpleNamespace(**sound | broken)
            concerned = [test for test in tests if not test.called.isdisjoint(broken)]
            if all(test.run_on(loops).wasSuccessful() for test in concerned):
                passed.append(what)
        self.assertEqual(passed, [])
