"""The wait for one answer: a timeout, and an earlier end where another broker leads in the place of a silent one."""

from __future__ import annotations

from collections.abc import Callable

from attrs import define, field

from logd.clientcore.silence import FIRST_SECONDS, until_next_check


@define(eq=False)
class AnswerWait:
    """The wait for the answer to ``what``. ``has_moved`` asks another broker, which takes some seconds at most."""

    what: str
    timeout: float
    clock: Callable[[], float]
    has_moved: Callable[[], bool]
    _began: float = field(init=False)
    _check: float = field(init=False)

    def __attrs_post_init__(self) -> None:
        self._began = self.clock()
        self.heard()

    def heard(self) -> None:
        """Note that bytes have come: the broker is not silent."""
        self._check = self.clock() + FIRST_SECONDS

    def seconds(self) -> float:
        """Return the seconds to wait for the socket until this is called again. Raises TimeoutError with the reason."""
        now = self.clock()
        if now < self._began + self.timeout and now >= self._check:
            if self.has_moved():
                waited = now - self._began
                raise TimeoutError(f"no answer to {self.what} for {waited:.1f} seconds, and another broker leads now")
            now = self.clock()
            self._check = now + until_next_check(now - self._began)
        left = self._began + self.timeout - now
        if left <= 0:
            raise TimeoutError(f"no answer to {self.what} within {self.timeout:g} seconds")
        return min(left, self._check - now)
