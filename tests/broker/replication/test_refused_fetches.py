"""Tests of a leader that takes connections and refuses what is asked on them."""

from __future__ import annotations

from unittest import mock

from twisted.logger import ILogObserver, LogEvent, globalLogPublisher
from zope.interface import provider

from logd.broker.replication.replica_fetcher import RETRY_DELAYS
from logd.broker.replication.replica_requests import ReplicaRequests
from logd.errors import StorageFull
from logd.protocol.requests.replica_fetch import ReplicaFetch, ReplicaFetchResponse
from tests.broker.replication.test_replicas import ReplicaTestCase

SECONDS = 20


class RefusedFetchTests(ReplicaTestCase):
    """A partition of three replicas."""

    def test_it_is_asked_at_the_longest_delay_and_told_of_once(self) -> None:
        """A connection that can be opened is no success; and the followers catch up once the leader answers."""
        self.send(b"before")
        asked, told = list[int](), list[str]()

        def refuse(session: ReplicaRequests, request: ReplicaFetch) -> ReplicaFetchResponse:
            asked.append(request.broker)
            return ReplicaFetchResponse(StorageFull.code, text="no disk")

        @provider(ILogObserver)
        def listen(event: LogEvent) -> None:
            if "cannot be followed" in str(event.get("log_format")):
                told.append(str(event["error"]))

        globalLogPublisher.addObserver(listen)
        self.addCleanup(globalLogPublisher.removeObserver, listen)
        for follower in self.followers:
            follower.kill()
            follower.start()
        with mock.patch.object(ReplicaRequests, "fetch", refuse):
            self.cluster.advance(float(SECONDS))
        for follower in self.followers:
            assert follower.store is not None
            count = asked.count(follower.store.broker_id)
            self.assertGreater(count, 3)
            self.assertLess(count, 2 * SECONDS / RETRY_DELAYS[1] + 10)
        self.assertEqual(len([text for text in told if "no disk" in text]), 2, told)
        self.send(b"after")
        self.cluster.advance(5.0)
        self.assertEqual((self.in_sync(), len(self.contents())), ((0, 1, 2), 1))
