"""The server side of a connection: takes requests and sends answers, in order and within limits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from attrs import Factory as AttrsFactory
from attrs import define, evolve, field
from twisted.internet.interfaces import IAddress, IHandshakeListener, ISSLTransport
from twisted.internet.protocol import Factory
from twisted.internet.protocol import Protocol as TwistedProtocol
from twisted.logger import Logger
from twisted.python.failure import Failure
from zope.interface import implementer

from logd.errors import ProtocolViolation
from logd.interfaces import Clock
from logd.net.backlog import Backlog
from logd.net.limits.connection_quotas import AdmissionCounters
from logd.net.limits.connection_turns import ConnectionTurns
from logd.net.limits.read_sizes import read_size
from logd.net.limits.server_limits import ConnectionLimits, Watch
from logd.net.limits.tcp_info import uptake
from logd.net.limits.traffic_quotas import ConnectionMeter
from logd.net.output import OutputQueue, close_pieces
from logd.net.peer_names import peer_name
from logd.net.session import PauseReason, Session, SessionOpener
from logd.net.tls_failures import tls_failure
from logd.net.transfer import PeerLeft, SendfileSender
from logd.protocol.conversation.foreign import ForeignClient
from logd.protocol.conversation.interfaces import IConversation
from logd.protocol.requests.fields import size_of

#: Bytes of answers in memory that the peer has not taken, or that wait for an earlier one. Beyond them no more requests
#: are taken.
MOST_WAITING_BYTES = 4 << 20


@implementer(IHandshakeListener)
class Connection(TwistedProtocol):
    """The server's connection with one client."""

    _log = Logger()

    def __init__(
        self,
        conversation: IConversation,
        opener: SessionOpener,
        sender: SendfileSender,
        clock: Clock,
        watch: Watch[Connection],
    ) -> None:
        self._conversation = conversation
        self._opener = opener
        self._sender = sender
        self._clock = clock
        self._watch = watch
        self._limits = watch.limits
        self._backlog = Backlog()
        #: The request bytes that the watch was last told of.
        self._told_bytes = 0
        #: True if the last bytes began another request.
        self._begun = False
        self._congested = False
        self._turns = ConnectionTurns(clock, watch.resting, lambda: self.resume(PauseReason.TURN))
        self._pauses: set[PauseReason] = set()
        self._taking = False
        self._reading = True
        self._lost = False
        self._closing = False
        #: The peer as ``host:port``, or the name of a local socket.
        self.peer = "?"
        #: Called with the client's certificate, once TLS has checked it.
        self.on_certificate: Callable[[Any], None] = lambda certificate: None
        #: The client's own name for itself, in a form that a log may show; empty if it told none.
        self.client = ""
        self.session: Session | None = None
        #: Counts what is used of quotas; None where there are none.
        self.meter: ConnectionMeter | None = None

    # Called by Twisted

    def connectionMade(self) -> None:  # noqa: N802
        transport: Any = self.transport
        self.peer = peer_name(transport.getPeer())
        transport.bufferSize = read_size(None)
        if hasattr(transport, "setTcpNoDelay"):
            transport.setTcpNoDelay(True)
        self._output = OutputQueue(transport, self._sender, self._emptied, self._transfer_failed)
        if self._watch.open.admit(self):
            self.session = self._opener.open_session(self)
        if self.session is None:
            self._lost = True
            transport.abortConnection()
        elif self._watch.idle is not None:
            self._watch.idle.heard(self)

    def handshakeCompleted(self) -> None:  # noqa: N802
        transport: Any = self.transport
        certificate = transport.getPeerCertificate()
        if certificate is not None and not self._lost:
            self.on_certificate(certificate)

    def dataReceived(self, data: bytes) -> None:  # noqa: N802
        if self._lost or self._closing:
            return
        if self._watch.idle is not None:
            self._watch.idle.heard(self)
        conversation = self._conversation
        before, kept = conversation.unanswered, conversation.kept_bytes
        requests = conversation.receive_data(data)
        self._begun = self._begun or bool(requests)
        transport: Any = self.transport
        transport.bufferSize = read_size(self.meter, len(data), len(requests))
        # Reading is paused while there is a backlog, but a TLS transport may still deliver bytes that it has decrypted.
        self._backlog.add(requests, conversation.unanswered - before, kept + len(data) - conversation.kept_bytes)
        self._output.hold()
        self._drain()
        self._output.let_go()
        if self.meter is not None:
            self.meter.received(len(data))

    def connectionLost(self, reason: Any = None) -> None:  # noqa: N802
        if not (self._lost or self._closing):
            failure = tls_failure(reason)
            if failure is not None:
                said = self._said_of(failure)
                if said:
                    self._log.warn("the connection of {peer} is closed: {reason}", peer=self.caller, reason=said)
        self._lost = True
        self._backlog.clear()
        self._turns.cancel()
        self._watch.leave(self)
        self._output.close()
        close_pieces(self._conversation.close())
        session, self.session = self.session, None
        if session is not None:
            session.lost()
        self.set_meter(None)

    # Called by sessions

    def answer(self, token: Any, response: Any) -> None:
        """Answer the request of ``token``. Files in the response are closed once sent, or not wanted any more."""
        pieces = self._conversation.answer(token, response)
        if self._lost:
            close_pieces(pieces)
            return
        self._output.send(pieces)
        if (meter := self.meter) is not None:
            only = pieces[0] if len(pieces) == 1 else None
            meter.sent(len(only) if type(only) is bytes else sum([size_of(piece) for piece in pieces]))
            if meter.requests:
                meter.answered()
        if self._output.congested and not self._congested:
            self._congested = True
            if self._watch.stuck is not None:
                self._watch.stuck.begin(self)
        if self._closing:
            self._close_when_empty()
        elif not self._taking and (self._backlog.requests or not self._reading):
            self._drain()

    @property
    def full(self) -> bool:
        """True while there are so many requests that no more should be read."""
        return self._conversation.unanswered + len(self._output) >= self._limits.pending_answers

    @property
    def has_much_to_send(self) -> bool:
        """True while so many bytes of answers are in memory that no more requests should be taken."""
        return self._output.waiting_bytes + self._conversation.held_bytes > MOST_WAITING_BYTES

    def pause(self, reason: PauseReason) -> None:
        """Stop taking requests until ``resume`` is called with the same reason."""
        self._pauses.add(reason)
        self._set_reading()

    def end_turn(self) -> None:
        """Stop taking requests until a later turn of the reactor, so that other connections have theirs."""
        if not self._lost:
            self.pause(PauseReason.TURN)
            self._turns.end()

    @property
    def turn_is_over(self) -> bool:
        """True once the connection's requests have taken their time of this turn of the reactor."""
        return self._turns.over

    def resume(self, reason: PauseReason) -> None:
        """End the pause for this reason; without another one, take the requests of the backlog."""
        self._pauses.discard(reason)
        if not self._lost and not self._taking:
            self._drain()

    def set_meter(self, meter: ConnectionMeter | None) -> None:
        """Count what is used of other quotas from now on, or of none."""
        before, self.meter = self.meter, meter
        transport: Any = self.transport
        transport.bufferSize = read_size(meter)
        if before is not None:
            before.leave()

    def close(self, reason: str = "", *, drain: bool = True) -> None:
        """Close, and log the reason, if any. Requests that were not taken are dropped.

        With ``drain`` the taken requests are answered first, and the peer has LINGER_SECONDS to take the answers.
        Without ``drain`` the connection is cut off at once.
        """
        if self._lost or (drain and self._closing):
            return
        if reason:
            self._log.warn("closing the connection of {peer}: {reason}", peer=self.caller, reason=reason)
        self._closing = True
        self._backlog.clear()
        if drain:
            self._close_when_empty()
            self._watch.lingering.begin(self)
        else:
            self._told_bytes = 0
            self._watch.leave(self)
            transport: Any = self.transport
            transport.abortConnection()

    def end_conversation(self, violation: ProtocolViolation) -> None:
        """Close for what came and is not the protocol, once the requests before are answered; log it."""
        if not isinstance(violation, ForeignClient):
            self.close(str(violation))
            return
        self.close(self._said_of(violation))

    def _said_of(self, client: ForeignClient) -> str:
        """Count a call by a client of another protocol. Return what to log of it, nothing if that was logged lately."""
        return self._watch.callers.line(client, self.address or self.peer)

    @property
    def encrypted(self) -> bool:
        """True inside TLS, where nobody else can read what is sent."""
        return bool(ISSLTransport.providedBy(self.transport))

    @property
    def caller(self) -> str:
        """The peer, with the name that the client has told."""
        return f"{self.peer} ({self.client})" if self.client else self.peer

    @property
    def idle(self) -> bool:
        """True while no answer is owed to the peer."""
        return self._lost or not (
            self._conversation.unanswered or self._backlog.requests or len(self._output) or self._output.congested
        )

    # Called by the watch

    @property
    def address(self) -> str:
        """See ``logd.net.limits.connection_quotas.Admitted``."""
        return self.peer.rpartition(":")[0]

    @property
    def replaceable(self) -> bool:
        """Always False: an open connection is never closed to admit another."""
        return False

    @property
    def reading(self) -> bool:
        """True while the connection is read, so that missing bytes are the peer's fault alone."""
        return self._reading

    def uptake(self) -> tuple[int, int] | None:
        """See ``logd.net.limits.tcp_info``."""
        return uptake(self.transport)

    # Internals

    def _tell_kept(self) -> None:
        """Report the bytes of requests that are not taken to the watch."""
        kept = self._conversation.kept_bytes + self._backlog.kept_bytes
        begun, self._begun = self._begun, False
        if kept or self._told_bytes:
            self._told_bytes = kept
            self._watch.untaken.keeps(self, kept, begun)

    def _drain(self) -> None:
        session = self.session
        if session is None:
            return
        self._taking = True
        try:
            self._turns.begin()
            while self._backlog.requests and not (self._pauses or self.has_much_to_send):
                # One read may bring thousands of requests, of which only some may be under way at a time.
                room = self._limits.pending_answers - (under_way := self._under_way) - len(self._output)
                if self.meter is not None and self.meter.requests and self._backlog.expecting:
                    room = min(room, self.meter.room(under_way))
                requests = self._backlog.take(room)
                if not requests:
                    break
                taken = session.take(requests)
                if taken < len(requests):
                    self._backlog.put_back(requests[taken:])
                    if self._closing:
                        self._backlog.clear()
                elif self._backlog.requests and self.turn_is_over:
                    self.end_turn()
        except Exception:
            self._log.failure("request of {peer} failed; closing its connection", peer=self.caller)
            self.close(drain=False)
            return
        finally:
            self._taking = False
            self._turns.pause()
        if self.meter is not None and self.meter.under_way != self._under_way:
            self.meter.noted(self._under_way)
        if (violation := self._conversation.violation) and not self._backlog.requests and not self._closing:
            self.end_conversation(violation)
        elif self._closing:
            self._close_when_empty()
        self._set_reading()
        if not (self._lost or self._closing):
            self._tell_kept()

    @property
    def _under_way(self) -> int:
        """The number of taken requests that wait for an answer. Others get no answer when the connection closes."""
        return self._conversation.unanswered - self._backlog.expecting

    def _set_reading(self) -> None:
        wanted = not (self._backlog.requests or self._pauses or self.full)
        if wanted != self._reading and not self._lost:
            self._reading = wanted
            transport: Any = self.transport
            if wanted:
                if self._told_bytes:
                    self._watch.untaken.restart(self)
                transport.resumeProducing()
            else:
                transport.pauseProducing()

    def _emptied(self) -> None:
        self._congested = False
        if self._watch.stuck is not None:
            self._watch.stuck.end(self)
        if self._closing:
            self._close_when_empty()
        elif not self._taking:
            self._drain()

    def _close_when_empty(self) -> None:
        if not (self._output.congested or len(self._output) or self._under_way):
            self._output.finish()
            transport: Any = self.transport
            transport.loseConnection()

    def _transfer_failed(self, failure: Failure) -> None:
        if not self._lost:
            if not failure.check(PeerLeft):
                self._log.warn(
                    "cannot send a fetch response to {peer}; closing its connection: {reason}",
                    peer=self.caller, reason=str(failure.value),
                )  # fmt: skip
            self.close(drain=False)


@define(eq=False)
class ConnectionFactory(Factory):
    """Makes a Connection for each client that connects."""

    noisy = False
    #: Creates the conversation of a new connection, and so chooses the wire protocol.
    _conversation: Callable[[], IConversation]
    _opener: SessionOpener
    _sender: SendfileSender
    _clock: Clock
    _limits: ConnectionLimits
    _counters: AdmissionCounters
    #: Enforces the limits, over the connections of all factories that share it.
    watch: Watch[Connection] = field(
        default=AttrsFactory(lambda self: Watch(self._clock, self._limits, self._counters), takes_self=True),
        kw_only=True,
    )

    def beside(self, conversation: Callable[[], IConversation], opener: SessionOpener) -> ConnectionFactory:
        """Return a factory for another listener of the same server: the limits hold over the connections of both."""
        return evolve(self, conversation=conversation, opener=opener)

    def buildProtocol(self, addr: IAddress | None) -> Connection:  # noqa: N802
        """See IProtocolFactory."""
        return Connection(self._conversation(), self._opener, self._sender, self._clock, self.watch)

    def stopFactory(self) -> None:  # noqa: N802
        """Cancel the watch's timers: the port is closed. Open connections are closed by the stop of the broker."""
        self.watch.stop()
