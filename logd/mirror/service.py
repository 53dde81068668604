"""``twistd logd-mirror``: the mirror as a Twisted service, with its pages."""

from __future__ import annotations

import signal
from typing import Any

from prometheus_client import CollectorRegistry
from twisted.application.service import IService, MultiService, Service
from twisted.internet.defer import CancelledError, Deferred
from twisted.logger import Logger
from twisted.python.failure import Failure

from logd.errors import LogdError
from logd.mirror.metrics import MirrorMetrics
from logd.mirror.running import MirrorPlan, RunningMirror


class MirrorService(Service):
    """One mirror. A failure that trying again does not cure ends the process."""

    _log = Logger()

    def __init__(self, reactor: Any, plan: MirrorPlan) -> None:
        self.life = RunningMirror(plan)
        self._reactor = reactor
        self._ended: Deferred[None] | None = None

    def startService(self) -> None:  # noqa: N802  # Twisted calls it
        """Begin; the clusters are searched for in the background, for as long as it takes."""
        super().startService()  # type: ignore[no-untyped-call]  # Twisted has no annotations there
        self._reactor.callWhenRunning(self._catch_terminate)
        self._ended = Deferred.fromCoroutine(self.life.run(self._reactor))
        self._ended.addErrback(self._failed)

    def stopService(self) -> Deferred[None]:  # noqa: N802  # Twisted calls it
        """Stop cleanly: what is in flight is waited for, and positions are committed."""
        super().stopService()  # type: ignore[no-untyped-call]  # as above
        ended, self._ended = self._ended, None
        if ended is None:
            return Deferred.fromCoroutine(_nothing())
        stopped: Deferred[None] = Deferred()
        ended.addBoth(lambda _: stopped.callback(None))
        ended.cancel()
        return stopped

    def _catch_terminate(self) -> None:
        """Exit with 0 after SIGTERM; by default Twisted exits with the signal's status."""
        if self._reactor.running:
            signal.signal(signal.SIGTERM, lambda *_: self._reactor.callFromThread(self._reactor.stop))

    def _failed(self, failure: Failure) -> None:
        if failure.check(CancelledError):
            return
        if failure.check(LogdError):
            self._log.critical("the mirror ends: {error}", error=failure.getErrorMessage())
        else:
            self._log.failure("the mirror ends by a bug", failure)
        if self._reactor.running:
            self._reactor.stop()


def mirror_service(reactor: Any, plan: MirrorPlan, http: str | None) -> IService:
    """Return the service, with /health and /metrics at the endpoint ``http``. Starts nothing."""
    mirror = MirrorService(reactor, plan)
    if http is None:
        return mirror
    from logd.web.service import PagesService

    registry = CollectorRegistry()
    registry.register(MirrorMetrics(lambda: mirror.life.mirror))
    services = MultiService()
    for each in (PagesService(reactor, http, mirror.life.health, registry), mirror):
        each.setServiceParent(services)  # type: ignore[no-untyped-call]  # as above
    return services


async def _nothing() -> None:
    return None
