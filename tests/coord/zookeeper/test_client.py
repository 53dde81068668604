"""Tests of logd.coord.zookeeper.client: requests that are never sent."""

from __future__ import annotations

from typing import cast

from kazoo.protocol.serialization import Create as KazooCreate
from kazoo.protocol.serialization import Transaction
from kazoo.security import ACL, Id
from twisted.trial.unittest import SynchronousTestCase

from logd.coord.errors import BadArguments
from logd.coord.records import Acl, Check, Create, Delete, SetData
from logd.coord.zookeeper.client import MOST_TRANSACTION_BYTES, ZooKeeperCoordination, bytes_of
from logd.coord.zookeeper.reactor_queue import ThreadReactor
from logd.coord.zookeeper.settings import CoordinationSettings
from tests.coord.zookeeper.doubles import Turns


class TransactionTests(SynchronousTestCase):
    """A client that was never connected, so that whatever it takes waits."""

    def setUp(self) -> None:
        """Make the client."""
        self.client = ZooKeeperCoordination(cast(ThreadReactor, Turns()), CoordinationSettings())

    def test_a_transaction_that_servers_refuse_is_not_sent(self) -> None:
        """They would end the connection, and with it all that is under way."""
        data = bytes(100_000)
        error = self.failureResultOf(self.client.multi([Create(f"/{number}", data) for number in range(11)])).value
        self.assertIsInstance(error, BadArguments)
        self.assertIn("11 operations", str(error))
        self.assertIn(f"{MOST_TRANSACTION_BYTES:,}", str(error))
        self.assertNoResult(self.client.multi([SetData(f"/{number}", data) for number in range(10)]))
        self.assertNoResult(self.client.multi([Check("/a"), Delete("/b")]))

    def test_a_transaction_is_counted_as_it_is_sent(self) -> None:
        """The bytes of its operations, and of the end of the list."""
        made = Create("/ä", b"data", (Acl(31, "digest", "user:hash"), Acl(1, "world", "anyone")))
        rows = [ACL(row.permissions, Id(row.scheme, row.identity)) for row in made.acl]
        sent = Transaction([KazooCreate(made.path, made.data, rows, 0)]).serialize()
        self.assertEqual(bytes_of([made]), len(sent))
