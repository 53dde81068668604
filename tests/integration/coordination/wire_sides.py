"""One of two servers that are compared: its sessions over raw sockets, and the frames that they get at each step."""

from __future__ import annotations

from typing import Any

from attrs import define, field

from logd.coord.records import OPEN_ACL
from logd.coord.server.wire.jute import encode_acl, encode_buffer, encode_ustring, encode_ustrings
from logd.coord.server.wire.opcodes import EVENT_XID, Opcode
from logd.protocol.requests.fields import INT32, INT64
from tests.integration.coordination.peers import TreePeer
from tests.integration.coordination.wire_answers import Asked, Numbers, Seen, read_frame
from tests.integration.coordination.wire_steps import SESSIONS, Ask, Reconnect, Renew, Step

_PING = Asked(-2, Opcode.PING, b"", "ping")
#: Stands for the frame of a connection that the server closed.
CLOSED = Seen(0, 0, 0, "closed")


@define(eq=False)
class Side:
    """The server at a port of loopback, with its sessions."""

    port: int
    numbers: Numbers = field(factory=Numbers)
    peers: list[TreePeer] = field(factory=list)
    #: The last zxid that each session has seen.
    last: list[int] = field(factory=list)

    def open(self) -> None:
        """Open the sessions."""
        for _ in range(SESSIONS):
            self.peers.append(self._peer())
            self.last.append(0)

    def close(self) -> None:
        """Close the sessions and their connections."""
        for peer in self.peers:
            peer.send(1, Opcode.CLOSE_SESSION)
            peer.socket.close()

    def make_folder(self, folder: str) -> None:
        """Make the node under which a sequence of steps has its nodes."""
        body = encode_ustring(folder) + encode_buffer(b"") + encode_acl(OPEN_ACL) + INT32.pack(0)
        self._ask(0, (Asked(1, Opcode.CREATE, body, folder),))

    def take(self, step: Step) -> list[tuple[int, Seen]]:
        """Do a step and return the frames that each session gets, in order, first the session of the step."""
        session = step.session
        seen: list[tuple[int, Seen]] = []
        if isinstance(step, Ask):
            seen = [(session, each) for each in self._ask(session, step.requests)]
        elif isinstance(step, Renew):
            told = self._ask(session, (Asked(7, Opcode.CLOSE_SESSION, b"", "close"),))
            seen = [(session, each) for each in _sorted_but_last(told)]
            self.peers[session].socket.close()
            self.peers[session] = self._peer()
        else:
            self.peers[session].socket.close()
            meanwhile = (session + 1) % SESSIONS
            # One after the other: a setACL may be among them (see RequestMaker.requests).
            seen = [(meanwhile, each) for missed in step.missed for each in self._ask(meanwhile, (missed,))]
            seen += [(session, each) for each in self._reconnect(step)]
        if seen and seen[-1][1] == CLOSED:
            self.peers[session] = self._peer()
        for other in range(SESSIONS):
            # An event that this step caused comes before the answer to a later request.
            told = self._ask(other, (_PING,))
            seen += [(other, each) for each in (_sorted_but_last(told) if isinstance(step, Renew) else told)]
        return seen

    def _reconnect(self, step: Reconnect) -> list[Seen]:
        self.peers[step.session] = self._peer(self.peers[step.session])
        seen = []
        if step.user is not None:
            body = INT32.pack(0) + encode_ustring("digest") + encode_buffer(step.user)
            seen += self._ask(step.session, (Asked(-4, Opcode.AUTH, body, "auth"),))
        lists = b"".join(map(encode_ustrings, (step.data, step.exists, step.children)))
        watches = Asked(-8, Opcode.SET_WATCHES, INT64.pack(self.last[step.session]) + lists, "watches")
        return seen + self._ask(step.session, (watches,))

    def _peer(self, before: TreePeer | None = None) -> TreePeer:
        peer = TreePeer(self.port, session=None if before is None else before.session)
        self.numbers.session(peer.session.session_id)
        return peer

    def _ask(self, session: int, requests: tuple[Asked, ...]) -> list[Seen]:
        peer, waiting, seen = self.peers[session], list(requests), []
        try:
            for each in requests:
                peer.send(each.xid, each.opcode, each.body)  # type: ignore[arg-type]
            while waiting:
                frame = peer.frame()
                seen.append(self._read(session, frame, waiting))
                if seen[-1].xid != EVENT_XID:
                    waiting.pop(0)
        except ConnectionError:
            seen.append(CLOSED)
        return seen

    def _read(self, session: int, frame: bytes, waiting: list[Asked]) -> Seen:
        seen = read_frame(frame, waiting, self.numbers)
        zxid: Any = INT64.unpack_from(frame, 4)[0]
        self.last[session] = max(self.last[session], zxid)
        return seen


def _sorted_but_last(told: list[Seen]) -> list[Seen]:
    """Return the events sorted: ZooKeeper removes a closed session's nodes in the order of a hash table."""
    return [*sorted(told[:-1], key=repr), *told[-1:]]
