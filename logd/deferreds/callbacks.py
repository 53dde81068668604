"""A Deferred for an operation that reports by a callback, as the log does, which knows no Deferreds."""

from __future__ import annotations

from collections.abc import Callable

from twisted.internet.defer import Deferred


def called_back(call: Callable[[Callable[[BaseException | None], None]], object]) -> Deferred[None]:
    """Call ``call(done)``; fire when it calls ``done(None)``, and fail with the error when it calls ``done(error)``.

    Cancelling ends only the wait, not the operation.
    """
    waiting: Deferred[None] = Deferred()

    def done(error: BaseException | None) -> None:
        if error is None:
            waiting.callback(None)
        else:
            waiting.errback(error)

    call(done)
    return waiting
