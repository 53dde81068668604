"""Tests of the table of requests."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from logd.protocol.requests.apis import LEGACY_APIS, LEGACY_BY_NUMBER, NATIVE_APIS, NATIVE_BY_NUMBER


class ApiTests(SynchronousTestCase):
    """Every row."""

    def test_numbers(self) -> None:
        """Each request has a number of its own: 0.7's five, ours from 16 on, and 32 and above are kept free."""
        self.assertEqual([api.number for api in LEGACY_APIS], list(range(5)))
        self.assertEqual(len(NATIVE_BY_NUMBER), len(NATIVE_APIS))
        self.assertEqual(set(LEGACY_BY_NUMBER) & set(NATIVE_BY_NUMBER), set())
        for api in NATIVE_APIS:
            self.assertIn(api.number, range(16, 32))

    def test_responses(self) -> None:
        """What has a response can write and read it; each response belongs to one request, so that it says which."""
        for api in (*LEGACY_APIS, *NATIVE_APIS):
            answered = api.response is not None
            self.assertEqual((api.encode_response is not None, api.read_response is not None), (answered, answered))
        responses = [api.response for api in (*LEGACY_APIS, *NATIVE_APIS) if api.response is not None]
        self.assertEqual(len(set(responses)), len(responses))
