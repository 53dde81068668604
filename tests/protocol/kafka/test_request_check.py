"""Tests of logd.protocol.kafka.request_check: lists are counted before anything is made of their items."""

from __future__ import annotations

from random import Random
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from logd.errors import ProtocolViolation
from logd.protocol.kafka import fetch, produce
from logd.protocol.kafka.apis import API_VERSIONS, APIS, MOST_ITEMS, UNCOUNTED_BYTES
from logd.protocol.kafka.request_check import check_item_count
from tests.broker.kafka.every_request.random_requests import RequestWriter

#: The requests that kafka-python does not read.
_READ_HERE = (produce.API_KEY, fetch.API_KEY, API_VERSIONS)
#: The size of a request, its head, and the client id of the random requests; flexible versions have a byte of tags.
_HEAD_BYTES = 4 + 10 + 4


class ItemCountTests(SynchronousTestCase):
    """Requests of every kind at every version."""

    def test_every_request_is_walked_to_its_end(self) -> None:
        """So each of its lists is counted, whatever stands before it."""
        random = Random(1)
        for api in APIS.values():
            if api.key in _READ_HERE:
                continue
            for version in api.versions:
                flexible = version >= api.flexible_from
                for _ in range(20):
                    request = RequestWriter(random, api.name, version, (b"",), flexible).write()
                    body = request[_HEAD_BYTES + flexible :]
                    walked = check_item_count(body, api._class("Request"), version, 1_000_000)
                    self.assertEqual(walked, len(body), f"{api.name} version {version}: {body!r}")

    def test_a_list_with_too_many_items_is_not_read(self) -> None:
        """Of a million zeros kafka-python would make half a million topics before it missed the rest."""
        made: list[object] = []
        kind: Any = APIS[3]._class("Request").MetadataRequestTopic
        make = kind.__init__

        def noted(topic: Any, *args: Any, **fields: Any) -> None:
            made.append(topic)
            make(topic, *args, **fields)

        self.patch(kind, "__init__", noted)
        zeros = bytes(UNCOUNTED_BYTES)
        for count in (MOST_ITEMS + 1, (1 << 31) - 1):
            with self.assertRaises(ProtocolViolation) as refused:
                APIS[3].decode(count.to_bytes(4, "big") + zeros, 8)
            self.assertIn("too many topics", str(refused.exception))
        self.assertEqual(made, [])

    def test_bytes_that_are_no_request(self) -> None:
        """kafka-python says what is wrong with them."""
        with self.assertRaises(Exception) as refused:
            APIS[3].decode(MOST_ITEMS.to_bytes(4, "big") + bytes(UNCOUNTED_BYTES), 8)
        self.assertNotIsInstance(refused.exception, ProtocolViolation)
