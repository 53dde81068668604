"""The methods of a client's connection that need no Deferred, over the one that gives one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from twisted.internet.defer import Deferred

from logd.errors import BrokerUnavailable


class ToldRequests:
    """Requests whose answer a function is told, for stand-ins of BrokerConnection."""

    lost = False

    def request(self, request: Any) -> Deferred[Any]:
        """Send a request, as BrokerConnection does."""
        raise NotImplementedError

    def request_told(self, request: Any, told: Callable[[Any], None]) -> None:
        """Send a request, and call ``told`` with the response or the error."""
        if self.lost:
            raise BrokerUnavailable("lost")
        self.request(request).addCallbacks(told, lambda failure: told(failure.value))

    def together(self, write: Callable[[], object]) -> None:
        """Call ``write``; each request leaves by itself."""
        write()

    def after_answers(self, call: Callable[[], object]) -> None:
        """Call ``call`` at once; each answer comes by itself."""
        call()
