"""Tests of the table of requests."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from logd.protocol.requests.apis import LEGACY_APIS, LEGACY_BY_NUMBER, NATIVE_APIS, NATIVE_BY_NUMBER, NATIVE_NUMBERS


class ApiTests(SynchronousTestCase):
    """Every row of the table."""

    def test_each_request_has_a_number_of_its_own(self) -> None:
        """Requests of 0.7 have 0 to 4, native ones 16 to 31, and those between brokers numbers from 32 on."""
        self.assertEqual([api.number for api in LEGACY_APIS], list(range(5)))
        self.assertEqual(len(NATIVE_BY_NUMBER), len(NATIVE_APIS))
        self.assertEqual(set(LEGACY_BY_NUMBER) & NATIVE_NUMBERS, set())
        for api in NATIVE_APIS:
            self.assertIn(api.number, range(16, 35))

    def test_versions_have_no_holes(self) -> None:
        """A client that asks for a version too many falls back by one."""
        for number in NATIVE_NUMBERS:
            versions = sorted(api.version for api in NATIVE_APIS if api.number == number)
            self.assertEqual(versions, list(range(len(versions))))

    def test_each_response_belongs_to_one_request(self) -> None:
        """Its type tells how it is written; versions of a request may share one, with both functions.

        A request with a response has both functions to write and to read it.
        """
        for api in (*LEGACY_APIS, *NATIVE_APIS):
            answered = api.response is not None
            self.assertEqual((api.encode_response is not None, api.read_response is not None), (answered, answered))
        apis = [api for api in (*LEGACY_APIS, *NATIVE_APIS) if api.response is not None]
        distinct = {(api.response, api.number, api.encode_response, api.read_response) for api in apis}
        self.assertEqual(len(distinct), len({api.response for api in apis}))
