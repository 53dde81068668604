"""The broker's side of one connection: requests in, in order and bounded; answers out, in order and bounded."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from attrs import define, field
from twisted.internet.interfaces import IAddress
from twisted.internet.protocol import Factory
from twisted.internet.protocol import Protocol as TwistedProtocol
from twisted.logger import Logger
from twisted.python.failure import Failure

from logd.errors import ProtocolViolation
from logd.interfaces import Clock, IFileRange, Timer
from logd.net.limits import ConnectionLimits, Watch
from logd.net.output import OutputQueue
from logd.net.transfer import PeerLeft, SendfileSender
from logd.net.uptake import uptake
from logd.protocol.foreign import ForeignClient
from logd.protocol.requests import expects_response
from logd.protocol.server_conversation import ServerConversation

#: Bytes asked of the kernel in one read. Twisted's 64 KiB would mean four times the calls for a busy producer.
READ_BYTES = 256 << 10
#: Requests that are taken together, and seconds after which the others have their turn before the rest is taken.
TURN_REQUESTS = 1000
TURN_SECONDS = 0.01
#: Seconds that a peer which broke the protocol has for taking the answers to what it sent before.
LINGER_SECONDS = 5.0


class Session(Protocol):
    """What the broker knows of one connection."""

    def take(self, requests: Sequence[Any]) -> int:
        """Take requests in order and return how many were taken.

        Fewer than all means: the next one has to wait, and ``Connection.hold`` was called (it may be over by now).
        """
        ...

    def lost(self) -> None:
        """The connection is gone: stop waiting on its behalf."""
        ...


class SessionOpener(Protocol):
    """Makes the session of a new connection, or refuses it with None."""

    def open_session(self, connection: Connection) -> Session | None: ...


class Connection(TwistedProtocol):
    """One client's connection."""

    _log = Logger()

    def __init__(self, opener: SessionOpener, sender: SendfileSender, clock: Clock, watch: Watch) -> None:
        self._opener = opener
        self._sender = sender
        self._clock = clock
        self._watch = watch
        self._limits = limits = watch.limits
        self._conversation: ServerConversation[bytes | IFileRange] = ServerConversation(limits.frame_bytes)
        self._backlog: Sequence[Any] = ()
        #: How many requests of the backlog expect an answer.
        self._untaken = 0
        #: Bytes of the requests in the backlog, or more, and what the watch was last told that is here.
        self._backlog_bytes = 0
        self._told_bytes = 0
        #: Whether the last bytes began another request.
        self._begun = False
        self._congested = False
        self._cutting_off: Timer | None = None
        self._next_turn: Timer | None = None
        self._holds: set[str] = set()
        self._taking = False
        self._reading = True
        self._lost = False
        self._closing = False
        self.peer = "?"
        self.session: Session | None = None

    # What Twisted calls.

    def connectionMade(self) -> None:  # noqa: N802
        transport: Any = self.transport
        self.peer = _peer_name(transport.getPeer())
        transport.bufferSize = READ_BYTES
        if hasattr(transport, "setTcpNoDelay"):
            transport.setTcpNoDelay(True)
        self._output = OutputQueue(transport, self._sender, self._emptied, self._transfer_failed)
        self.session = self._opener.open_session(self)
        if self.session is None:
            self._lost = True
            transport.abortConnection()
        elif self._watch.idle is not None:
            self._watch.idle.heard(self)

    def dataReceived(self, data: bytes) -> None:  # noqa: N802
        if self._lost or self._closing:
            return
        if self._watch.idle is not None:
            self._watch.idle.heard(self)
        conversation = self._conversation
        before, kept = conversation.unanswered, conversation.kept_bytes
        requests = conversation.receive_data(data)
        self._untaken += conversation.unanswered - before
        self._backlog_bytes += kept + len(data) - conversation.kept_bytes
        self._begun = self._begun or bool(requests)
        # Reading is paused while there is a backlog, but a TLS transport may still hand over what it had decrypted.
        self._backlog = [*self._backlog, *requests] if self._backlog else requests
        self._drain()

    def connectionLost(self, reason: Any = None) -> None:  # noqa: N802
        self._lost = True
        self._backlog = ()
        for timer in (self._cutting_off, self._next_turn):
            if timer is not None and timer.active():
                timer.cancel()
        self._forget_me()
        self._output.close()
        for piece in self._conversation.held_pieces():
            if not isinstance(piece, bytes):
                piece.close()
        session, self.session = self.session, None
        if session is not None:
            session.lost()

    # What sessions call.

    def answer(self, request: Any, pieces: list[bytes | IFileRange]) -> None:
        """Answer ``request``. Ranges among the pieces are closed once sent; a lost connection only closes them."""
        if self._lost:
            for piece in pieces:
                if not isinstance(piece, bytes):
                    piece.close()
            return
        self._output.send(self._conversation.answer(request, pieces))
        if self._output.congested and not self._congested:
            self._congested = True
            if self._watch.stuck is not None:
                self._watch.stuck.begin(self)
        if self._closing:
            self._close_when_empty()
        elif not self._taking and (self._backlog or not self._reading):
            self._drain()

    def exchange(self, request: Any, other: Any) -> None:
        """See ServerConversation: ``other`` is what will be answered."""
        self._conversation.exchange(request, other)

    @property
    def full(self) -> bool:
        """Whether so many requests are here that no more should be read."""
        return self._conversation.unanswered + len(self._output) >= self._limits.pending_answers

    def hold(self, reason: str) -> None:
        """Read no further requests until ``proceed`` is called with the same reason."""
        self._holds.add(reason)
        self._set_reading()

    def proceed(self, reason: str) -> None:
        """End a hold; requests that were held back are taken."""
        self._holds.discard(reason)
        if not self._lost and not self._taking:
            self._drain()

    def close(self) -> None:
        """Close once what is queued has left; a peer that does not take it in a few seconds is cut off."""
        if self._closing or self._lost:
            return
        self._closing = True
        self._backlog = ()
        self._close_when_empty()
        self._cutting_off = self._clock.callLater(LINGER_SECONDS, self._cut_off)

    def give_up(self, reason: str) -> None:
        """Close because of what the peer has sent."""
        if not (self._closing or self._lost):
            self._log.warn("closing the connection of {peer}: {reason}", peer=self.peer, reason=reason)
            self.close()

    def _end_conversation(self, violation: ProtocolViolation) -> None:
        if not isinstance(violation, ForeignClient):
            self.give_up(str(violation))
            return
        host = self.peer.rpartition(":")[0] or self.peer
        unsaid = self._watch.callers.called(violation.kind, host)
        if unsaid is None:
            self.close()
        else:
            self.give_up(f"{violation}" + f" ({unsaid} more such calls from {host} since the last line)" * bool(unsaid))

    @property
    def idle(self) -> bool:
        """Whether nothing is owed to the peer."""
        return self._lost or not (
            self._conversation.unanswered or self._backlog or len(self._output) or self._output.congested
        )

    def abort(self) -> None:
        """Close at once."""
        if not self._lost:
            transport: Any = self.transport
            transport.abortConnection()

    # What the watch calls.

    @property
    def reading(self) -> bool:
        """Whether the peer is read from: its fault alone if nothing comes."""
        return self._reading

    def uptake(self) -> tuple[int, int] | None:
        """See ``logd.net.uptake``."""
        return uptake(self.transport)

    def cut_off(self, reason: str) -> None:
        """Close at once, and log why."""
        if not self._lost:
            self._log.warn("closing the connection of {peer}: {reason}", peer=self.peer, reason=reason)
            self._backlog = ()
            self._closing = True
            self._forget_me()
            self.abort()

    # The inside.

    def _forget_me(self) -> None:
        watch = self._watch
        self._told_bytes = 0
        watch.untaken.leave(self)
        if watch.stuck is not None:
            watch.stuck.leave(self)
        if watch.idle is not None:
            watch.idle.leave(self)

    def _tell_kept(self) -> None:
        """Tell the watch what is here of requests that were not taken."""
        if not self._backlog:
            self._backlog_bytes = 0
        kept = self._conversation.kept_bytes + self._backlog_bytes
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
            late = self._clock.seconds() + TURN_SECONDS
            while self._backlog and not self._holds:
                requests = self._from_backlog()
                if not requests:
                    break
                taken = session.take(requests)
                if taken < len(requests):
                    self._put_back(requests[taken:])
                elif self._backlog and self._clock.seconds() >= late:
                    self.hold("turn")
                    self._next_turn = self._clock.callLater(0, self.proceed, "turn")
        except Exception:
            self._log.failure("request of {peer} failed; closing its connection", peer=self.peer)
            self.abort()
            return
        finally:
            self._taking = False
        violation = self._conversation.violation
        if violation is not None and not self._backlog and not self._closing:
            self._end_conversation(violation)
        elif self._closing:
            self._close_when_empty()
        self._set_reading()
        if not (self._lost or self._closing):
            self._tell_kept()

    def _from_backlog(self) -> Sequence[Any]:
        """Take out the requests whose answers there is room for; one read may bring thousands of them."""
        backlog = self._backlog
        room = self._limits.pending_answers - self._under_way - len(self._output)
        if self._untaken <= room:
            if len(backlog) <= TURN_REQUESTS:
                self._backlog, self._untaken = (), 0
                return backlog
            count = TURN_REQUESTS
            if self._untaken:
                self._untaken -= sum(map(expects_response, backlog[:count]))
        else:
            count = expecting = 0
            for request in backlog:
                if expects_response(request):
                    if expecting >= room:
                        break
                    expecting += 1
                count += 1
            self._untaken -= expecting
        self._backlog = backlog[count:]
        return backlog[:count]

    def _put_back(self, requests: Sequence[Any]) -> None:
        self._untaken += sum(map(expects_response, requests))
        if not self._closing:
            self._backlog = [*requests, *self._backlog]

    @property
    def _under_way(self) -> int:
        """How many requests were taken and wait for their answer. The others get none when the connection closes."""
        return self._conversation.unanswered - self._untaken

    def _set_reading(self) -> None:
        wanted = not (self._backlog or self._holds or self.full)
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

    def _cut_off(self) -> None:
        if not self._lost:
            self.abort()

    def _transfer_failed(self, failure: Failure) -> None:
        if not self._lost:
            if not failure.check(PeerLeft):
                self._log.warn("cannot deliver to {peer}: {reason}", peer=self.peer, reason=str(failure.value))
            self.abort()


def _peer_name(address: Any) -> str:
    host, port = getattr(address, "host", None), getattr(address, "port", None)
    return f"{host}:{port}" if host is not None else str(address)


@define(eq=False)
class ConnectionFactory(Factory):
    """Makes a Connection for each client that connects."""

    noisy = False
    _opener: SessionOpener
    _sender: SendfileSender
    _clock: Clock
    _limits: ConnectionLimits = field(factory=ConnectionLimits)
    watch: Watch = field(init=False)

    def __attrs_post_init__(self) -> None:
        self.watch = Watch(self._clock, self._limits)

    def buildProtocol(self, addr: IAddress | None) -> Connection:  # noqa: N802
        """See IProtocolFactory."""
        return Connection(self._opener, self._sender, self._clock, self.watch)

    def stopFactory(self) -> None:  # noqa: N802
        """Nobody connects any more; those who are connected are closed by whoever stops the broker."""
        self.watch.stop()
