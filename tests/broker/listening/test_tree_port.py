"""Tests of a broker's access to the coordination tree."""

from __future__ import annotations

from random import Random
from typing import Any

from twisted.internet import reactor
from twisted.internet.protocol import Factory
from twisted.trial.unittest import TestCase

from logd.broker.coordination import BrokerCoordination
from logd.config.sources import Source, broker_settings
from logd.errors import ConfigurationError
from logd.testing.memory.files import MemoryFiles

_reactor: Any = reactor


class TakenAddressTests(TestCase):
    """A broker whose own tree cannot be served, as somebody else listens at its address."""

    def setUp(self) -> None:
        """Listen at an address."""
        self.port: Any = _reactor.listenTCP(0, Factory(), interface="127.0.0.1")
        self.addCleanup(self.port.stopListening)

    def refused(self, origin: str) -> str:
        """Open a tree at that address, which is set by ``origin``; return the error."""
        listen = f"tcp:{self.port.getHost().port}:interface=127.0.0.1"
        settings = broker_settings(Source("", {"data": "/d"}), Source(origin, {"zookeeper.listen": listen}))
        files = MemoryFiles(Random(1))
        files.make_directory("/d")
        coordination = BrokerCoordination(_reactor, settings, files)
        self.addCleanup(lambda: coordination.close())
        return str(self.assertRaises(ConfigurationError, coordination.open, "/d"))

    def test_the_variable_that_names_this_address_is_pointed_out(self) -> None:
        """The person who set it may have meant the broker to join the tree that is there."""
        text = self.refused("LOGD_ZOOKEEPER")
        self.assertIn("if another broker runs on this machine", text)
        self.assertIn("LOGD_ZOOKEEPER names this address, at which the broker serves its own tree by default", text)
        self.assertIn("to join the tree that is there, give --zookeeper", text)

    def test_no_variable_is_named_that_had_no_effect(self) -> None:
        """The address is that of an option here."""
        text = self.refused("--zookeeper-listen")
        self.assertIn("if another broker runs on this machine", text)
        self.assertNotIn("LOGD_ZOOKEEPER", text)
