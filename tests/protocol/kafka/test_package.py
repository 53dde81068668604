"""Tests of the package that reads most requests of Kafka's clients, where it is missing."""

from __future__ import annotations

import subprocess
import sys
from types import ModuleType
from unittest import mock

from twisted.trial.unittest import SynchronousTestCase

from logd.errors import MissingPackage
from logd.protocol.kafka.package import require_package


class PackageTests(SynchronousTestCase):
    """The package as the start of a broker looks for it."""

    def refused(self, **modules: ModuleType | None) -> str:
        """Return the error with these modules in place of the package's."""
        named = {name.replace("_", "."): module for name, module in modules.items()}
        with mock.patch.dict(sys.modules, named), self.assertRaises(MissingPackage) as caught:
            require_package("kafka.listen")
        return str(caught.exception)

    def test_it_is_there(self) -> None:
        """Tests need it."""
        require_package("kafka.listen")

    def test_it_is_missing(self) -> None:
        """The setting, the package, the Python and the remedy are named."""
        text = self.refused(kafka=None, kafka_protocol=None, kafka_protocol_metadata=None)
        for words in ("kafka.listen needs", "kafka-python", sys.executable, "pip install 'kafka-python>=3.0.12'"):
            self.assertIn(words, text)

    def test_it_is_an_old_one(self) -> None:
        """Before 3.0 there were classes of the same names for each version."""
        old = ModuleType("kafka.protocol.metadata")
        old.MetadataResponse = []  # type: ignore[attr-defined]
        self.assertIn("too old", self.refused(kafka_protocol_metadata=old))

    def test_no_request_warns(self) -> None:
        """A program that has made warnings errors, as strict test suites do, imports all requests."""
        program = (
            "from logd.protocol.kafka.apis import APIS\n"
            "from logd.protocol.kafka.package import require_package\n"
            "require_package('kafka.listen')\n"
            "for api in APIS.values():\n"
            "    api.key in (0, 1, 18) or api.module()\n"
        )
        ran = subprocess.run(
            [sys.executable, "-W", "error", "-c", program], capture_output=True, text=True, timeout=240
        )
        self.assertEqual(ran.stderr, "")
