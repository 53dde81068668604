"""One client's connection: decodes requests in order, sends answers and watch events, with bounded memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

from twisted.internet.interfaces import IPushProducer
from twisted.internet.protocol import Protocol
from twisted.logger import Logger
from twisted.python.failure import Failure
from zope.interface import implementer

from logd.coord.errors import AuthFailed, CoordinationError
from logd.coord.records import Identity, SetWatches, Sync, WatchEvent
from logd.coord.server.admission import GUESS_SECONDS
from logd.coord.server.incoming import Incoming
from logd.coord.server.outgoing import Outgoing
from logd.coord.server.pending import PendingRequests
from logd.coord.server.wire.answers import encode_event, encode_outcome
from logd.coord.server.wire.handshake import (
    ConnectRequest,
    ConnectResponse,
    decode_connect_request,
    encode_connect_response,
)
from logd.coord.server.wire.requests import Auth, Call, CloseSession, ManyWatches, Ping, decode_call
from logd.coord.tree.access import identity_of
from logd.coord.tree.attachment import Attachment
from logd.coord.tree.interfaces import CutReason, IAttached
from logd.coord.tree.outcome import Outcome
from logd.errors import ProtocolViolation
from logd.interfaces import Timer
from logd.protocol.conversation.foreign import ForeignClient, foreign_opening
from logd.protocol.conversation.framing import Frame

if TYPE_CHECKING:
    from logd.coord.server.server import CoordinationServer

#: The length of a four-letter word; read as a frame's size, such a word is above a gigabyte.
_WORD_BYTES = 4
#: The zxid in an answer to credentials, as in ZooKeeper: they are no change.
_NO_ZXID = 0
#: Seconds of requests of one connection before others have their turn; checked every few requests, and after each of
#: more bytes than this.
_SLICE_SECONDS = 0.01
_SLICE_REQUESTS = 16
_SLICE_BYTES = 1 << 10
#: Requests to the connection, not to the tree.
_TAKEN_HERE = (ManyWatches, Ping, Auth, CloseSession, CoordinationError)


@implementer(IAttached, IPushProducer)
class ServerConnection(Protocol):
    """A client's connection. It is read only while the peer takes answers and few enough requests are pending."""

    _log = Logger()

    def __init__(self, server: CoordinationServer) -> None:
        self._server = server
        self._incoming = Incoming(server.settings.frame_bytes)
        self._first: bytes | None = b""
        #: The session, its end, or some watches of many were requested and are not there yet: later requests wait.
        self._unready = False
        self._attachment: Attachment | None = None
        #: Requests are left undecoded, because enough answers are pending.
        self._stalled = False
        self._pending = PendingRequests(server)
        self._outgoing = Outgoing(server.counters)
        self._taking = False
        #: Events that the host reports together are written together.
        self._gathering = False
        self._reading = True
        self._vouching: Timer | None = None
        #: Continues with the requests after other connections had their turn.
        self._next_slice: Timer | None = None
        #: Nothing more is read or answered: the connection is closed, or will be once the output is written.
        self._over = False
        #: To be closed once the waiting output is written.
        self._leaving = False
        self.peer = "?"
        #: See ``logd.net.limits.connection_quotas.Admitted``.
        self.address = ""

    @property
    def session_id(self) -> int:
        """The session's id, 0 as long as there is none."""
        return 0 if self._attachment is None else self._attachment.session.id

    @property
    def pending(self) -> int:
        """The number of pending answers."""
        return self._pending.count + len(self._outgoing)

    # Called by Twisted.

    def connectionMade(self) -> None:  # noqa: N802
        transport: Any = self.transport
        address = transport.getPeer()
        self.address = getattr(address, "host", "")
        self.peer = f"{self.address or '?'}:{getattr(address, 'port', '?')}"
        if hasattr(transport, "setTcpNoDelay"):
            transport.setTcpNoDelay(True)
        self._outgoing.begin(transport.write)
        transport.registerProducer(self, True)
        if not self._server.opened(self):
            self.close(drain=False)

    def dataReceived(self, data: bytes) -> None:  # noqa: N802
        if self._over:
            return
        self._server.counters.bytes_received += len(data)
        if self._first is not None:
            data = self._first + data
            if len(data) < _WORD_BYTES:
                self._first = data
                return
            self._first = None
            word = data[:_WORD_BYTES]
            if word.isalpha() and foreign_opening(int.from_bytes(word, "big")) is None:
                self._outgoing.write(self._server.answer_word(word, self.address))
                self.close()
                return
        self._incoming.add(data)
        self._take()

    def connectionLost(self, reason: Failure | None = None) -> None:  # noqa: N802
        self._over = True
        self._drop()
        self._server.left(self)

    def pauseProducing(self) -> None:  # noqa: N802
        """Note that the peer's socket takes no more data."""
        self._outgoing.pause()
        self._regulate()

    def resumeProducing(self) -> None:  # noqa: N802
        """Note that the peer's socket takes data again."""
        self._outgoing.resume()
        if self._leaving:
            self._leave()
            return
        self._take()
        self._regulate()

    def stopProducing(self) -> None:  # noqa: N802
        """Do nothing: the connection is gone, and ``connectionLost`` cleans up."""

    # Called by the host of the tree.

    def notified(self, zxid: int, event: WatchEvent) -> None:
        """See IAttached."""
        self._server.counters.watch_events += 1
        if not self._taking:
            self._gather()
        self._send(encode_event, zxid, event)

    def cut(self, reason: CutReason) -> None:
        """See IAttached."""
        self._log.info("{peer}: {reason}", peer=self.peer, reason=reason.value)
        self._attachment = None
        if reason is CutReason.EXPIRED:
            self._server.counters.sessions_expired += 1
        # A peer that does not read its answers would keep the connection for ever.
        self.close(drain=False)

    # Called by the server and its limits.

    @property
    def reading(self) -> bool:
        """See ``logd.net.limits.request_memory.Sender``."""
        return self._reading

    @property
    def replaceable(self) -> bool:
        """True for a connection without a session, which may be closed to make room for another."""
        return not self.session_id

    def close(self, reason: str = "", *, drain: bool = True) -> None:
        """Close, and log the reason if there is one.

        With ``drain``, close once the output is written, for which the peer has limited time; without it, close at
        once and lose unsent output.
        """
        if reason:
            self._log.warn("closing the connection of {peer}: {reason}", peer=self.peer, reason=reason)
        self._over = True
        if drain:
            self._leaving = True
            self._let_session_go()
            self._server.watch.lingering.begin(self)
            self._leave()
        else:
            self._drop()
            self._server.left(self)
            transport: Any = self.transport
            transport.abortConnection()

    # Requests

    def _take(self) -> None:
        """Decode and execute what has arrived, while the peer takes answers and few enough requests are pending."""
        if self._taking:
            return
        self._taking = True
        self._outgoing.hold()
        clock = self._server.clock
        begin, taken = clock.seconds(), 0
        try:
            while not self._over and not self._is_full():
                if self._incoming.unfinished is not None:
                    self._incoming.unfinished()
                    continue
                frame = self._incoming.take()
                if frame is None:
                    self._stalled = False
                    break
                self._frame(frame)
                taken += 1
                is_due = taken % _SLICE_REQUESTS == 0 or frame[2] - frame[1] > _SLICE_BYTES
                if is_due and clock.seconds() - begin > _SLICE_SECONDS:
                    self._give_way(0)
            else:
                self._stalled = True
        except ProtocolViolation as error:
            self._violated(error)
        finally:
            self._taking = False
            self._outgoing.let_go()
            self._regulate()
            if not self._over:
                self._server.watch.untaken.keeps(self, self._incoming.kept_bytes, taken > 0)

    def _violated(self, error: ProtocolViolation) -> None:
        """Close for what came and is not the protocol; log it, calls by clients of other protocols now and then."""
        self._server.counters.protocol_violations += 1
        if self._attachment is None:
            error = self._incoming.foreign or error
        said = str(error)
        if isinstance(error, ForeignClient):
            said = self._server.watch.callers.line(error, self.address or self.peer)
        if said:
            self._log.warn("{peer}: closed, {error}", peer=self.peer, error=said)
        self.close()

    def _give_way(self, seconds: float) -> None:
        if self._next_slice is None and not self._over:
            self._next_slice = self._server.clock.callLater(seconds, self._go_on)

    def _go_on(self) -> None:
        self._next_slice = None
        self._take()

    def _is_full(self) -> bool:
        return self._outgoing.is_held_up or self._unready or self._next_slice is not None or self._pending.is_full()

    def _regulate(self) -> None:
        if self._over:
            return
        reading = not self._is_full()
        if reading != self._reading:
            self._reading = reading
            transport: Any = self.transport
            if reading:
                self._server.watch.untaken.restart(self)
                transport.resumeProducing()
            else:
                transport.pauseProducing()
        if not reading and self._vouching is None:  # also if the peer takes answers again, and is not read yet
            self._vouch()

    def _vouch(self) -> None:
        """Keep the session alive while its client is not read because answers wait for the server's own disk."""
        self._vouching = None
        attachment = self._attachment
        if attachment is not None and not self._reading and not self._outgoing.is_held_up:
            attachment.heard()
            third = attachment.session.timeout_ms / 3000
            self._vouching = self._server.clock.callLater(third, self._vouch)

    def _frame(self, frame: Frame) -> None:
        self._server.counters.packets_received += 1
        attachment = self._attachment
        if attachment is None:
            self._connect(decode_connect_request(*frame))
            return
        call = self._server.admission.checked(self, decode_call(*frame))
        asked = call.asked
        if not isinstance(asked, _TAKEN_HERE):
            self._execute(attachment, call, asked, frame[2] - frame[1])
        elif isinstance(asked, Ping):
            attachment.heard()
            self._send(encode_outcome, call, Outcome(self._server.flushed, None))
        elif isinstance(asked, ManyWatches):
            size = frame[2] - frame[1]
            self._incoming.unfinished = partial(self._set_watches, attachment, call, asked.parts, size)
        elif isinstance(asked, Auth):
            self._authenticate(attachment, call, asked)
        elif isinstance(asked, CloseSession):
            self._unready = True
            attachment.close(lambda: self._session_closed(call))
        else:
            # In its turn: after the answers that are pending.
            self._execute(attachment, call, Sync("/"), 0)

    def _execute(self, attachment: Attachment, call: Call, request: Any, size: int) -> None:
        size = self._pending.begin(request, size)
        attachment.execute(request, partial(self._answered, call, size, self._server.clock.seconds()))

    def _set_watches(self, attachment: Attachment, call: Call, parts: Iterator[SetWatches], size: int) -> None:
        """Set some of many watches: one turn's work, whose events the peer has to take before the next."""
        try:
            part = next(parts, None)
        except CoordinationError as error:
            part, call = None, call._replace(asked=error)
        if part is None:
            self._incoming.unfinished = None
            self._execute(attachment, call, Sync("/"), size)
            return
        self._unready = True
        self._give_way(0)
        size = self._pending.begin(part, size)
        answered = partial(self._answered, call, size, self._server.clock.seconds())
        attachment.execute(part, partial(self._some_set, answered, size))

    def _some_set(self, answered: Callable[[Outcome], None], size: int, outcome: Outcome) -> None:
        self._unready = False
        if outcome.answer is None:
            self._pending.end(size)
            self._take()
        else:  # there is no room for these watches
            self._incoming.unfinished = None
            answered(outcome)

    def _answered(self, call: Call, size: int, asked_at: float, outcome: Outcome) -> None:
        server = self._server
        self._pending.end(size)
        server.answered(self.peer, server.clock.seconds() - asked_at, outcome)
        if not self._taking:
            self._gather()
        self._outgoing.send(encode_outcome, call, outcome)
        if self._stalled or not self._reading:
            self._take()

    def _authenticate(self, attachment: Attachment, call: Call, asked: Auth) -> None:
        attachment.heard()
        identity = identity_of(asked.scheme, asked.data)
        if identity is not None and attachment.authenticated(identity):
            if not self._server.admission.showed(self, identity):
                self._give_way(GUESS_SECONDS)
            self._send(encode_outcome, call, Outcome(_NO_ZXID, None))
            return
        self._server.counters.authentications_failed += 1
        self._log.info("{peer}: authentication by {scheme} refused", peer=self.peer, scheme=asked.scheme)
        self._send(encode_outcome, call, Outcome(_NO_ZXID, AuthFailed()))
        self.close()

    # The session

    def _connect(self, asked: ConnectRequest) -> None:
        server, host = self._server, self._server.host
        server.demand_change(asked.last_zxid)
        if server.is_held_up():
            self.close(drain=False)
            return
        identities = (Identity("ip", self.peer.rpartition(":")[0]),)
        self._unready = True
        if asked.session_id:
            host.attach(self, asked.session_id, asked.password, identities, lambda each: self._found(each, asked))
        else:
            host.open_session(self, asked.timeout_ms, identities, lambda each: self._opened(each, asked))

    def _found(self, attachment: Attachment | None, asked: ConnectRequest) -> None:
        self._unready = False
        if self._over:
            if attachment is not None:
                attachment.detach()
        elif attachment is None:
            self._outgoing.write(encode_connect_response(ConnectResponse(), asked.has_read_only))
            self.close()
        else:
            self._attached(attachment, asked)

    def _opened(self, attachment: Attachment, asked: ConnectRequest) -> None:
        self._unready = False
        self._server.counters.sessions_opened += 1
        if self._over:
            # The client never learned of this session, so it cannot come back to it.
            attachment.close(lambda: None)
            return
        self._attached(attachment, asked)

    def _attached(self, attachment: Attachment, asked: ConnectRequest) -> None:
        self._attachment = attachment
        self._server.admission.began(self)
        session = attachment.session
        response = ConnectResponse(session.timeout_ms, session.id, session.password)
        self._outgoing.write(encode_connect_response(response, asked.has_read_only))
        self._take()

    def _session_closed(self, call: Call) -> None:
        self._attachment = None
        if not self._over:
            self._send(encode_outcome, call, Outcome(self._server.flushed, None))
            self.close()

    def _let_session_go(self) -> None:
        attachment, self._attachment = self._attachment, None
        if attachment is not None:
            self._server.admission.ended(self, attachment)
        for timer in (self._vouching, self._next_slice):
            if timer is not None:
                timer.cancel()
        self._vouching = self._next_slice = None
        self._pending.leave()
        self._incoming.clear()

    def _drop(self) -> None:
        self._let_session_go()
        self._leaving = False
        self._outgoing.clear()

    # Answers

    def _gather(self) -> None:
        """Write together what the host reports in one go, as immediate answers are anyway."""
        if not self._gathering:
            self._gathering = True
            self._outgoing.hold()
            self._server.host.afterwards(self._gathered)

    def _gathered(self) -> None:
        self._gathering = False
        self._outgoing.let_go()

    def _send(self, make: Callable[..., bytes], *args: Any) -> None:
        if not self._over:
            self._outgoing.send(make, *args)

    def _leave(self) -> None:
        if not len(self._outgoing):
            self._leaving = False
            self._outgoing.flush()
            transport: Any = self.transport
            transport.unregisterProducer()
            transport.loseConnection()
