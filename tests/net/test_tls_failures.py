"""Tests of logd.net.tls_failures: the end of a connection that could not speak TLS, in words."""

from __future__ import annotations

from twisted.python.failure import Failure
from twisted.trial.unittest import SkipTest, SynchronousTestCase

from logd.net.tls_failures import tls_failure


class TlsFailureTests(SynchronousTestCase):
    """The remedies."""

    def told(self, words: str) -> str:
        """Return the text about an error of OpenSSL."""
        try:
            from OpenSSL.SSL import Error
        except ImportError as error:
            raise SkipTest("pyOpenSSL is not installed (extra tls of logd)") from error
        found = tls_failure(Failure(Error([("SSL routines", "", words)])))
        assert found is not None
        return str(found)

    def test_a_certificate_that_is_not_taken(self) -> None:
        """Its authority is not known to the client, or it is for another name than the client was told: Java does
        not say which, so both remedies are told.
        """
        for words in ("tlsv1 alert unknown ca", "tls alert certificate unknown"):
            self.assertIn("name the authority to it", self.told(words))
            self.assertIn("advertise an address that the certificate is for", self.told(words))

    def test_another_failure(self) -> None:
        """It has no remedy here."""
        self.assertEqual(self.told("no shared cipher"), "TLS with it failed: no shared cipher")
