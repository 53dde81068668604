"""The link to one broker: its connection, made when first needed and again after a loss, with growing delays."""

from __future__ import annotations

from collections.abc import Callable, Collection, Coroutine, Iterable
from functools import partial
from typing import Any, Protocol

from twisted.internet.defer import Deferred, fail, succeed
from twisted.logger import Logger
from twisted.python.failure import Failure

from logd.backoff import Backoff
from logd.client.cluster.broker_outages import BrokerOutage
from logd.client.cluster.leader_checks import LeaderChecks
from logd.client.settings import LinkSettings
from logd.clientcore.addresses import Address, kind_hint, name_of
from logd.clientcore.answers import is_final, misfit
from logd.deadlines import Deadlines
from logd.deferreds.waiting import WaitingDeferreds
from logd.errors import (
    BrokerUnavailable,
    CannotConnect,
    ClientClosed,
    LogdError,
    NothingHeard,
    ProtocolViolation,
    error_for_code,
)
from logd.interfaces import Clock, Timer
from logd.protocol.requests.fetch_wait import FetchWait
from logd.protocol.requests.produce_ack import ProduceAck
from logd.protocol.requests.responses import ErrorResponse

#: A connection that lived shorter than this counts as a failed attempt, so that a broker that drops each connection
#: is not called in a loop.
SHORT_LIFE_SECONDS = 1.0
#: Seconds that a broker has to take the written bytes while the link closes.
CLOSE_SECONDS = 5.0


class ClientConnection(Protocol):
    """The part of ``logd.net.connection.BrokerConnection`` that clients use; tests script one in its place."""

    writable: bool
    #: True once anything has come.
    heard: bool

    def request(self, request: Any) -> Deferred[Any]: ...
    def request_told(self, request: Any, told: Callable[[Any], None]) -> None: ...
    def together(self, write: Callable[[], object]) -> None: ...
    def after_answers(self, call: Callable[[], object]) -> None: ...
    def send_only(self, request: Any) -> None: ...
    def send_frames(self, frames: list[bytes]) -> None: ...
    def when_lost(self) -> Deferred[BaseException]: ...
    def when_writable(self) -> Deferred[None]: ...
    def close(self) -> Deferred[None]: ...
    def abort(self) -> None: ...


#: ``connect(address) -> Deferred[ClientConnection]``, failing with BrokerUnavailable; cancellable.
Connect = Callable[[Address], Deferred[ClientConnection]]


#: Partitions by topic and number.
Partitions = Iterable[tuple[str, int]]
#: ``has_moved(link, partitions)`` asks another broker whether others than the one of the link lead the partitions.
HasMoved = Callable[["BrokerLink", Collection[tuple[str, int]]], Coroutine[Any, Any, bool]]


class _Asked:
    """One request that waits for its answer."""

    __slots__ = ("connection", "partitions", "request", "timeout", "waiting")

    def __init__(
        self,
        request: Any,
        waiting: Deferred[Any] | Callable[[Any], None],
        connection: ClientConnection,
        timeout: float,
        partitions: Callable[[], Partitions] | None = None,
    ) -> None:
        self.request = request
        #: The connection's Deferred, or the function to call with the response or error.
        self.waiting = waiting
        self.connection = connection
        self.timeout = timeout
        #: Returns the partitions that a request is about that does not name them.
        self.partitions = partitions

    @property
    def is_led(self) -> bool:
        """Return whether only the leader of partitions can answer."""
        return self.partitions is not None or isinstance(self.request, (ProduceAck, FetchWait))

    def led_partitions(self) -> Partitions:
        """Return the partitions whose leader alone can answer."""
        if self.partitions is not None:
            return self.partitions()
        return [(part.topic, part.partition) for part in self.request.parts] if self.is_led else ()


class BrokerLink:
    """The connection to one address, opened again when it is lost. ``current`` is the live connection or None."""

    _log = Logger()

    def __init__(
        self,
        clock: Clock,
        address: Address,
        connect: Connect,
        settings: LinkSettings,
        random: Callable[[], float],
        has_moved: HasMoved | None = None,
    ) -> None:
        """``has_moved`` asks other brokers; without it a broker that does not answer is waited for."""
        self.address = address
        self.current: ClientConnection | None = None
        self._clock = clock
        self._connect = connect
        self._settings = settings
        self._backoff = Backoff(settings.retry_delay, settings.retry_delay_limit, random)
        self._deadlines: Deadlines[_Asked] = Deadlines(clock, self._late)
        self._checks: LeaderChecks | None = None
        if has_moved is not None:
            ask_others = partial(self._ask_others, has_moved)
            self._checks = LeaderChecks(clock, self._waits_since, ask_others, self._give_up)
        self._outage = BrokerOutage(clock, name_of(address), self._keep_trying)
        #: The time at which the next attempt may begin (clock's seconds).
        self.next_attempt = 0.0
        self._attempt: Deferred[ClientConnection] | None = None
        self._timer: Timer | None = None
        self._waiters: WaitingDeferreds[ClientConnection] = WaitingDeferreds()
        self._closed = False
        self._last_session = 0

    def new_session(self) -> int:
        """Return a number for a fetch session that no other one on this link has."""
        self._last_session += 1
        return self._last_session

    def get(self) -> Deferred[ClientConnection]:
        """Return the live connection, or the next one. Cancellable.

        Fails with BrokerUnavailable when the next attempt to connect fails (the delays between attempts grow), and with
        ClientClosed after ``close``.
        """
        if self.current is not None:
            return succeed(self.current)
        if self._closed:
            return fail(ClientClosed(f"the client of {name_of(self.address)} is closed"))
        waiter = self._waiters.new()
        if self._attempt is None and self._timer is None:
            delay = self.next_attempt - self._clock.seconds()
            if delay > 0:
                self._timer = self._clock.callLater(delay, self._begin)
            else:
                self._begin()
        return waiter

    def ask(
        self,
        connection: ClientConnection,
        request: Any,
        timeout: float,
        partitions: Callable[[], Partitions] | None = None,
    ) -> Deferred[Any]:
        """Send a request and wait at most ``timeout`` seconds; then the connection is closed, since it no longer
        answers. ``partitions`` returns those that the request is about, if only their leader can answer and it does not
        name them.

        Fails with BrokerUnavailable, also for an answer that does not match the request, and with the broker's
        WireError if the broker refused the request as a whole.
        """
        try:
            answer = connection.request(request)
        except LogdError as error:  # the conversation cannot write this request
            return fail(error)
        asked = _Asked(request, answer, connection, timeout, partitions)
        self._deadlines.watch(asked, timeout)
        if self._checks is not None and asked.is_led:
            self._checks.asked()
        return answer.addBoth(self._ended, asked)

    def ask_told(self, connection: ClientConnection, request: Any, timeout: float, told: Callable[[Any], None]) -> None:
        """Do as ``ask``, but call ``told`` with the response, or with the error. For those who ask often."""
        asked = _Asked(request, told, connection, timeout)
        self._deadlines.watch(asked, timeout)
        if self._checks is not None:
            self._checks.asked()
        try:
            connection.request_told(request, partial(self._answered, asked))
        except LogdError as error:  # the connection is lost, or the conversation cannot write this request
            self._deadlines.forget(asked)
            told(error)

    def moved(self) -> None:
        """Connect only if somebody asks for it, as the broker is at another address now."""
        self._outage.moved()

    def close(self) -> Deferred[None]:
        """Close the connection once the written bytes have left. Fires when it is closed."""
        self._closed = True
        self._outage.close()
        if self._checks is not None:
            self._checks.stop()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._attempt is not None:
            self._attempt.cancel()
        self._fail(ClientClosed(f"the client of {name_of(self.address)} is closed"))
        if self.current is None:
            self._deadlines.stop()
            return succeed(None)
        connection, self.current = self.current, None
        closing = connection.close()
        patience = self._clock.callLater(CLOSE_SECONDS, connection.abort)

        def closed(_: None) -> None:
            self._deadlines.stop()  # not before: what still waits is told that the connection is lost
            if patience.active():
                patience.cancel()

        return closing.addCallback(closed)

    def _ended(self, result: Any, asked: _Asked) -> Any:
        """Return the result of a Deferred of ``ask``. Raises its errors."""
        if not self._deadlines.forget(asked):
            raise self._no_answer(asked)
        if isinstance(result, Failure):
            if result.check(ProtocolViolation):
                raise self._violated(result.getErrorMessage())
            return result
        error = self._error_of(asked, result)
        if error is not None:
            raise error
        return result

    def _answered(self, asked: _Asked, result: Any) -> None:
        """Pass the result of ``ask_told`` on."""
        if not self._deadlines.forget(asked):
            return  # it was late, and was told so
        error: BaseException | None = None
        if isinstance(result, ProtocolViolation):
            error = self._violated(str(result))
        elif not isinstance(result, BaseException):
            error = self._error_of(asked, result)
        asked.waiting(result if error is None else error)  # type: ignore[operator]  # ask_told has put a function there

    def _error_of(self, asked: _Asked, response: Any) -> Exception | None:
        """Return the error that a response stands for, None for an answer to the request."""
        if isinstance(response, ErrorResponse):
            return error_for_code(response.error, response.text)
        wrong = misfit(asked.request, response)
        if not wrong:
            return None
        asked.connection.abort()
        kind = type(asked.request).__name__
        return BrokerUnavailable(f"the broker at {name_of(self.address)}: its answer to {kind} makes no sense: {wrong}")

    def _violated(self, violation: str) -> BrokerUnavailable:
        """Return the error for a broker that breaks the protocol, which is as good as none."""
        return BrokerUnavailable(f"the broker at {name_of(self.address)}: {violation}")

    def _no_answer(self, asked: _Asked) -> BrokerUnavailable:
        kind = BrokerUnavailable if asked.connection.heard else NothingHeard
        return kind(f"the broker at {name_of(self.address)} did not answer in {asked.timeout:g} seconds")

    def _late(self, asked: _Asked) -> None:
        """Abort a connection that has not answered in time."""
        asked.connection.abort()
        if self.current is asked.connection:
            self._forget("no answer in time")
        if isinstance(asked.waiting, Deferred):
            asked.waiting.cancel()
        else:
            asked.waiting(self._no_answer(asked))

    def _led(self) -> list[_Asked]:
        """Return the unanswered requests on the connection that only the leader of partitions can answer."""
        return [asked for asked in self._deadlines if asked.connection is self.current and asked.is_led]

    def _waits_since(self) -> float | None:
        """Return the time by which the first of those requests should have had its answer; None if there is none.

        The broker may hold a fetch back for as long as its timeout is above ``request_timeout``.
        """
        patience = self._settings.request_timeout
        return min(
            (self._deadlines.deadline(each) - min(each.timeout, patience) for each in self._led()),
            default=None,
        )

    async def _ask_others(self, has_moved: HasMoved) -> bool:
        return await has_moved(self, {where for asked in self._led() for where in asked.led_partitions()})

    def _give_up(self) -> None:
        """Give up a connection without answers, as others lead the partitions that it was asked about."""
        if self.current is not None:
            self.current.abort()
            self._forget("no answer, and another broker leads")

    def _begin(self) -> None:
        self._timer = None
        self._outage.trying()
        try:
            self._attempt = self._connect(self.address)
        except Exception:  # such as an endpoint's certificate that cannot be read at this moment
            self._attempt = fail()
        self._attempt.addCallbacks(self._connected, self._failed)

    def _connected(self, connection: ClientConnection) -> None:
        self._attempt = None
        if self._closed:
            connection.abort()
            return
        born = self._clock.seconds()
        self.current = connection
        self._outage.over()
        connection.when_lost().addCallback(self._lost, connection, born)
        self._waiters.fire(connection)

    def _failed(self, failure: Failure) -> None:
        self._attempt = None
        if self._closed:
            return
        delay = self._backoff.next()
        self.next_attempt = self._clock.seconds() + delay
        error = failure.value
        if not isinstance(error, BrokerUnavailable) and not is_final(error):  # a refused user is refused again
            reason = failure.getErrorMessage()
            error = BrokerUnavailable(f"no connection to the broker at {name_of(self.address)}: {reason}")
        hint = kind_hint(self.address)
        if hint and isinstance(error, CannotConnect):
            error = CannotConnect(f"{error}; {hint}", f"{error.reason}; {hint}")
        self._log.debug("{error}; the next attempt waits {delay:.2f} seconds", error=error, delay=delay)
        self._fail(error)
        if not self._closed:
            self._outage.failed(error.reason if isinstance(error, CannotConnect) else failure.getErrorMessage())

    def _keep_trying(self) -> None:
        self.get().addErrback(lambda _: None)  # _failed reports the failure to the outage

    def _lost(self, reason: BaseException, connection: ClientConnection, born: float) -> None:
        if self._clock.seconds() - born < SHORT_LIFE_SECONDS:
            self.next_attempt = self._clock.seconds() + self._backoff.next()
        else:
            self._backoff.reset()
        if self.current is connection:
            self._forget(str(reason) or type(reason).__name__)

    def _forget(self, reason: str) -> None:
        self.current = None
        if not self._closed:
            address = name_of(self.address)
            self._log.info("lost the connection to the broker at {address}: {reason}", address=address, reason=reason)
            self._outage.lost(reason.rstrip("."))

    def _fail(self, error: Exception) -> None:
        self._waiters.fail(error)
