"""An ephemeral node that is kept until stopped: it is created again after a lost session or a deletion."""

from __future__ import annotations

from collections.abc import Callable

from twisted.internet.defer import CancelledError, Deferred, fail, succeed
from twisted.logger import Logger
from twisted.python.failure import Failure

from logd.coord.ephemeral import create_ephemeral, release_ephemeral
from logd.coord.errors import (
    BadVersion,
    ClientClosing,
    ConnectionLoss,
    CoordinationError,
    NoNode,
    OperationTimeout,
    SessionExpired,
)
from logd.coord.interfaces import ICoordination
from logd.coord.records import WatchEvent
from logd.deferreds.sleeping import InterruptibleSleep
from logd.deferreds.waiting import WaitingDeferreds
from logd.interfaces import Clock

#: Errors that pass with connection problems or concurrent changes of the node: retried without a report.
_PASSING = (ConnectionLoss, OperationTimeout, SessionExpired, BadVersion, NoNode)


class KeptEphemeral:
    """Keeps an ephemeral node at ``path``, from ``start`` to ``stop``.

    The node is watched: it is created again after its session was lost or the node was deleted. ``same`` tells whether
    the data of a node of another session are from our own earlier session (see ``create_ephemeral``). Errors after
    ``start`` fired (such as HeldElsewhere: another client took the node while our session was lost) are passed to
    ``failed``, and the node is tried again every ``retry`` seconds. Errors of a lost connection are not reported.
    ``made_again`` is called each time that the node was created again.
    """

    _log = Logger()

    def __init__(
        self,
        clock: Clock,
        coordination: ICoordination,
        path: str,
        data: bytes,
        *,
        same: Callable[[bytes], bool] | None = None,
        failed: Callable[[Failure], None] | None = None,
        made_again: Callable[[], None] | None = None,
        retry: float = 1.0,
    ) -> None:
        self.path = path
        self._clock = clock
        self._coordination = coordination
        self._data = data
        self._written: bytes | None = None
        self._same = same or (lambda found: found in (self._data, self._written))
        self._on_failure = failed or self._log_failure
        self._made_again = made_again
        self._retry = retry
        self._loop: Deferred[None] | None = None
        self._waiting: WaitingDeferreds[None] = WaitingDeferreds()
        self._sleep = InterruptibleSleep(clock)

    def start(self) -> Deferred[None]:
        """Create the node; fires once it exists.

        Fails as ``create_ephemeral`` does, and then nothing is kept. Cancelling the Deferred stops everything.
        """
        if self._loop is not None:
            raise RuntimeError(f"{self.path} is kept already")
        started = self._waiting.new(self._cancel)
        self._loop = Deferred.fromCoroutine(self._keep(started))
        self._loop.addErrback(self._ended)
        return started

    def update(self, data: bytes) -> Deferred[None]:
        """Change the node's value to ``data``; fires once it is written. Fails with ClientClosing when not kept."""
        self._data = data
        if self._loop is None:
            return fail(ClientClosing(f"{self.path} is not kept", self.path))
        written = self._waiting.new()
        self._sleep.wake()
        return written

    def stop(self, timeout: float | None = None) -> Deferred[None]:
        """Stop keeping the node, and delete it. Never fails: a node that could not be deleted ends with the session."""
        running = self._loop is not None
        self._cancel()
        if not running:
            return succeed(None)
        return release_ephemeral(self._coordination, self.path, timeout).addCallbacks(lambda _: None, lambda _: None)

    async def _keep(self, started: Deferred[None]) -> None:
        troubled = False
        while True:
            try:
                watch = await self._ensure()
                troubled = False
                changed = self._until(watch)  # before ``_waiting`` fires, since callers may call ``update`` then
                self._waiting.fire(None)
                await changed
            except CoordinationError as error:
                if isinstance(error, ClientClosing) or not (started.called or isinstance(error, _PASSING)):
                    raise
                if not started.called and isinstance(error, OperationTimeout):
                    raise
                if not isinstance(error, _PASSING):
                    self._failed(Failure())
                # The first failure is mostly the lost session itself: there is no need to wait.
                if troubled:
                    await self._sleep.sleep(self._retry)
                troubled = True

    async def _ensure(self) -> Deferred[WatchEvent]:
        """Create or update the node if necessary; return the watch that fires when it may have changed."""
        while True:
            data = self._data
            answer, watch = self._coordination.exists_and_watch(self.path)
            stat = await answer
            if stat is None or stat.ephemeral_owner != self._coordination.session_id:
                _drop(watch)
                await create_ephemeral(self._coordination, self.path, data, same=self._same)
                again, self._written = self._written is not None, data
                if again and self._made_again is not None:
                    self._made_again()
            elif self._written != data:
                _drop(watch)
                await self._coordination.set(self.path, data, stat.version)
                self._written = data
            elif data == self._data:
                return watch

    def _until(self, watch: Deferred[WatchEvent]) -> Deferred[None]:
        """Sleep until the watch fires, or ``update`` ends the sleep."""
        sleeping = self._sleep.sleep(None)
        watch.addCallbacks(lambda _: None if sleeping.called else self._sleep.wake(), lambda _: None)

        def over(result: None) -> None:
            watch.cancel()
            return result

        return sleeping.addBoth(over)

    def _cancel(self) -> None:
        loop, self._loop = self._loop, None
        if loop is not None:
            loop.cancel()

    def _ended(self, failure: Failure) -> None:
        self._loop = None
        if failure.check(CancelledError):
            failure = Failure(ClientClosing(f"{self.path} is kept no longer", self.path))
        elif not self._waiting and not failure.check(ClientClosing):
            self._failed(failure)
        self._waiting.fail(failure)

    def _failed(self, failure: Failure) -> None:
        try:
            self._on_failure(failure)
        except Exception:  # a bug in the listener; the node is still kept
            self._log.failure(
                "{path} cannot be kept ({reason}), and the callback for this failed",
                path=self.path,
                reason=failure.value,
            )

    def _log_failure(self, failure: Failure) -> None:
        self._log.warn("cannot keep the node {path}, trying again: {reason}", path=self.path, reason=failure.value)


def _drop(watch: Deferred[WatchEvent]) -> None:
    watch.addErrback(lambda _: None)
    watch.cancel()
