"""Tests of bugs behind a request whose handler waited: each is logged, and the request answered with unknown error."""

from __future__ import annotations

from typing import NoReturn

from logd.broker import reading
from logd.broker.requests import waiting_fetch
from logd.errors import UnknownError
from logd.log.partition import PartitionLog
from logd.protocol.requests.describe_log import DescribeLog
from logd.protocol.requests.fetch_wait import FetchPart, FetchWait
from logd.protocol.requests.legacy_requests import Produce
from logd.protocol.requests.metadata import Metadata, MetadataResponse, TopicMetadata
from tests.broker.rig import BrokerTestCase
from tests.log.entries import plain

ENTRY = plain(b"message")


class BugError(Exception):
    """An error that no handler expects."""


def fail(*_: object) -> NoReturn:
    """Stand in for a function with a bug."""
    raise BugError("a bug")


class FailureTests(BrokerTestCase):
    """A topic of one partition with an entry, and a client."""

    def setUp(self) -> None:
        """Create the topic."""
        super().setUp()
        self.create("t")
        self.peer = self.connect()
        self.peer.send(Produce("t", 0, ENTRY))
        self.settle()

    def assert_logged(self, text: str) -> None:
        """Check that the bug was logged once, in a line with ``text``."""
        self.assertEqual(len(self.events.criticals(text)), 1)
        self.assertEqual(len(self.flushLoggedErrors(BugError)), 1)

    def test_describe_log_is_answered(self) -> None:
        """A bug in the search for boundaries, on a thread, is logged, and the request answered with unknown error."""
        self.patch(PartitionLog, "find_boundaries", lambda *_: map(fail, "x"))
        self.assertEqual(self.ask(self.peer, DescribeLog("t", 0, (0,))).error, UnknownError.code)
        self.assert_logged("a description of the log")

    def test_metadata_is_answered(self) -> None:
        """Metadata that fails after topics were created is answered with an unknown error for each topic."""
        self.patch(type(self.broker), "brokers", fail)
        answer = self.ask(self.peer, Metadata(("new", "t"), create=True))
        failed = tuple(TopicMetadata(name, UnknownError.code, "", ()) for name in ("new", "t"))
        self.assertEqual(answer, MetadataResponse((), failed))
        self.assert_logged("2 topics could not be described")

    def test_fetch_is_answered_after_search(self) -> None:
        """A fetch that fails after the search for an entry is answered with an unknown error for each part."""
        self.patch(waiting_fetch.WaitingFetch, "must_wait", fail)
        part = FetchPart("t", 0, 0, 3, 100, exact=False)
        answer = self.ask(self.peer, FetchWait(1000, 1, 100, (part,)))
        self.assertEqual([(each.topic, each.partition, each.error) for each in answer.parts], [("t", 0, -1)])
        self.assert_logged("a fetch of 1 parts failed")

    def test_fetch_is_answered_after_wait(self) -> None:
        """A fetch that fails when its wait is over is answered with an unknown error for each part."""
        parts = tuple(FetchPart("t", 0, 0, len(ENTRY), 100 + number, exact=True) for number in range(2))
        self.peer.send(FetchWait(1000, 1, 100, parts))
        self.patch(reading, "read_range", fail)
        self.clock.advance(1)
        self.settle()
        (answer,) = self.peer.answers()
        self.assertEqual([each.error for each in answer.parts], [-1, -1])
        self.assert_logged("a fetch of 2 parts failed")
