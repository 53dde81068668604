"""The network before a broker: a proxy in the process of the test, that may swallow everything."""

from __future__ import annotations

from typing import Any

from attrs import define
from twisted.internet.threads import blockingCallFromThread

from tests.coord.proxy import Proxy


@define(eq=False)
class BrokerNetwork:
    """Called on another thread than the reactor's. See tests.integration.chaos.world.Network."""

    _reactor: Any
    proxy: Proxy

    @property
    def hosts(self) -> str:
        """The address at which the broker is reached."""
        return self.proxy.hosts

    def cut(self) -> None:
        """Let nothing pass from now on; nobody is told."""
        blockingCallFromThread(self._reactor, self._swallow, True)

    def heal(self) -> None:
        """Let everything pass; connections from before have ended, as bytes of them are lost."""
        blockingCallFromThread(self._reactor, self._swallow, False)

    def _swallow(self, all_of_it: bool) -> None:
        self.proxy.swallow_requests = self.proxy.swallow_answers = all_of_it
        if not all_of_it:
            self.proxy.cut()
