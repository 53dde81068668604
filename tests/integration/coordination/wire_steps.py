"""Seeded sequences of client steps at a coordination server, which do not depend on the server's answers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from random import Random
from struct import Struct

from attrs import frozen

from logd.coord.records import OPEN_ACL, Acl
from logd.coord.server.wire.jute import BOOL, encode_acl, encode_buffer, encode_ustring
from logd.coord.server.wire.opcodes import Opcode
from logd.coord.tree.access import digest_identity
from logd.protocol.requests.fields import INT32
from tests.integration.coordination.wire_answers import Asked

#: Sessions that are open at a time.
SESSIONS = 3
USERS = (b"ann:secret", b"bob:hidden")
_MULTI_HEADER = Struct(">i?i")
_NAMES = ("/a", "/b", "/a/a", "/a/b", "/a/a/a", "/b/a", "/a/b0000000000", "/a/b0000000001", "/a/0000000002")
_STRANGE = (
    "", "a", "a/b", "//", "/a/", "/a//b", "/a/./b", "/a/../b", "/.", "/..", "/a/.b", "/a/b.", "/nul\0", "/a/\x01",
    "/a/\x7f", "/a/\x9f", "/a/\xa0", "/a/\u00e9", "/a/\u4e2d", "/a/\ue000", "/a/\ufeff", "/a/\ufff0",
    "/a/\U0001f600", "/a/ ", "/" + "long" * 30,
)  # fmt: skip
_SHARED = ("/", "/zookeeper", "/zookeeper/config", "/zookeeper/quota")


def _everything(scheme: str, identity: str, permissions: int = 31) -> Acl:
    return Acl(permissions, scheme, identity)


_ANN, _BOB = (digest_identity(user).id for user in USERS)
_ACLS = (
    *((Acl(permissions, "world", "anyone"),) for permissions in (0, 1, 2, 4, 7, 8, 15, 16, 30, 31, 32, 63, -1)),
    (_everything("auth", ""),),
    (_everything("auth", "whoever"), Acl(1, "world", "anyone")),
    (_everything("digest", _ANN),),
    (_everything("digest", _BOB), Acl(1, "world", "anyone")),
    (_everything("digest", _BOB), _everything("digest", _BOB), _everything("digest", _ANN)),
    (_everything("digest", "nobody"),),
    (_everything("digest", "too:many:colons"),),
    (_everything("ip", "127.0.0.1"),),
    (_everything("ip", "127.0.0.0/8", 1), _everything("digest", _ANN)),
    (_everything("ip", "10.1.2.3/8"), _everything("digest", _BOB)),
    (_everything("ip", "no address"),),
    (_everything("ip", "127.0.0.1/33"),),
    (_everything("world", "somebody"),),
    (_everything("unheard-of", "x"),),
    (),
)


@frozen
class Ask:
    """A session sends requests at once, and takes their answers."""

    session: int
    requests: tuple[Asked, ...]


@frozen
class Reconnect:
    """A session's connection is lost, and it comes back by another one, where it sets watches again.

    Meanwhile the next session sends ``missed``.
    """

    session: int
    missed: tuple[Asked, ...]
    data: tuple[str, ...]
    exists: tuple[str, ...]
    children: tuple[str, ...]
    #: The credentials by which it authenticates again, None for none.
    user: bytes | None


@frozen
class Renew:
    """A session is closed by its client, and another one opened in its place."""

    session: int


Step = Ask | Reconnect | Renew


def steps(seed: int, count: int, folder: str) -> Iterator[Step]:
    """Yield ``count`` steps; nodes are made in ``folder``, which must exist."""
    random = Random(seed)
    maker = RequestMaker(random, folder)
    for _ in range(count):
        session, chance = random.randrange(SESSIONS), random.random()
        if chance < 0.06:
            data, exists, children = (maker.paths(random.randrange(6)) for _ in range(3))
            missed = (*maker.requests(random.randrange(4)), *map(maker.write, data + exists))
            yield Reconnect(session, missed, data, exists, children, random.choice((None, *USERS)))
        elif chance < 0.09:
            yield Renew(session)
        elif chance < 0.12:
            # Alone: ZooKeeper answers it on another thread than what stands before it.
            yield Ask(session, (maker.authentication(),))
        else:
            yield Ask(session, tuple(maker.requests(random.choice((1, 1, 1, 2, 5)))))


class RequestMaker:
    """A maker of requests that often concern the same nodes."""

    def __init__(self, random: Random, folder: str) -> None:
        self._random = random
        self._folder = folder
        self._xid = 0

    def path(self) -> str:
        """Return a path, mostly one of a few in the folder."""
        chance = self._random.random()
        if chance < 0.03:
            return self._random.choice(_SHARED)
        if chance < 0.08:
            strange = self._random.choice(_STRANGE)
            return self._folder + strange if strange.startswith("/") else strange
        return self._folder + self._random.choice(_NAMES)

    def paths(self, count: int) -> tuple[str, ...]:
        """Return paths to be watched, none of them empty."""
        return tuple(self.path() or "/" for _ in range(count))

    def requests(self, count: int) -> Iterator[Asked]:
        """Yield ``count`` requests or fewer: ZooKeeper may check one close behind a setACL against the former list."""
        for _ in range(count):
            made = self.request()
            yield made
            if made.opcode == Opcode.SET_ACL:
                break

    def request(self) -> Asked:
        """Return a request of any kind."""
        self._xid += 1
        random, chance, path = self._random, self._random.random(), self.path()
        parts: tuple[int, ...] = ()
        if chance < 0.45:
            opcode, body, text = self._operation((Opcode.CREATE, Opcode.CREATE2, Opcode.DELETE, Opcode.SET_DATA))
        elif chance < 0.57:
            opcode = Opcode.MULTI
            body, text, parts = self._multi()
        elif chance < 0.62 and path != "/":
            acl, version = self._acl(1.0), self._version()
            opcode, text = Opcode.SET_ACL, f"{path!r} {acl} {version}"
            body = encode_ustring(path) + encode_acl(acl) + INT32.pack(version)
        elif chance < 0.66:
            opcode, body, text = Opcode.GET_ACL, encode_ustring(path or "/"), repr(path or "/")
        elif chance < 0.68:
            opcode, body, text = Opcode.SYNC, encode_ustring(path), repr(path)
        else:
            opcode = random.choice((Opcode.EXISTS, Opcode.GET_DATA, Opcode.GET_CHILDREN, Opcode.GET_CHILDREN2))
            watch = random.random() < 0.6
            # ZooKeeper reads the empty path as "/", where a watch never fires; here there is no such node.
            path = path or "/"
            body, text = encode_ustring(path) + BOOL.pack(watch), f"{path!r} watch={watch}"
        return Asked(self._xid, opcode, body, f"{opcode.name} {text}", parts)

    def write(self, path: str) -> Asked:
        """Return a request that most often changes an existing node."""
        self._xid += 1
        kinds = (Opcode.CREATE, Opcode.DELETE, Opcode.SET_DATA, Opcode.SET_DATA, Opcode.SET_DATA)
        opcode, body, text = self._operation(kinds, path)
        return Asked(self._xid, opcode, body, f"{opcode.name} {text}")

    def authentication(self) -> Asked:
        """Return an authentication as one of the users."""
        self._xid += 1
        user = self._random.choice(USERS)
        body = INT32.pack(0) + encode_ustring("digest") + encode_buffer(user)
        return Asked(self._xid, Opcode.AUTH, body, f"AUTH {user!r}")

    def _multi(self) -> tuple[bytes, str, tuple[int, ...]]:
        kinds = (Opcode.CREATE, Opcode.CREATE2, Opcode.DELETE, Opcode.SET_DATA, Opcode.CHECK)
        made = [self._operation(kinds) for _ in range(self._random.choice((0, 1, 2, 3, 5)))]
        pieces = [_MULTI_HEADER.pack(opcode, False, -1) + body for opcode, body, _ in made]
        body = b"".join(pieces) + _MULTI_HEADER.pack(-1, True, -1)
        return body, "; ".join(f"{opcode.name} {text}" for opcode, _, text in made), tuple(each[0] for each in made)

    def _operation(self, kinds: Sequence[Opcode], path: str | None = None) -> tuple[Opcode, bytes, str]:
        opcode, version = self._random.choice(kinds), self._version()
        path = self.path() if path is None else path
        data = self._random.choice((None, b"", b"x", b"yy"))
        if opcode in (Opcode.CREATE, Opcode.CREATE2):
            acl, flags = self._acl(0.25), self._random.choice((0, 0, 0, 1, 2, 3))
            body = encode_ustring(path) + encode_buffer(data) + encode_acl(acl) + INT32.pack(flags)
            return opcode, body, f"{path!r} {data!r} {'open' if acl is OPEN_ACL else acl} flags={flags}"
        if opcode == Opcode.SET_DATA:
            body = encode_ustring(path) + encode_buffer(data) + INT32.pack(version)
            return opcode, body, f"{path!r} {data!r} {version}"
        return opcode, encode_ustring(path) + INT32.pack(version), f"{path!r} {version}"

    def _acl(self, chance: float) -> tuple[Acl, ...]:
        return self._random.choice(_ACLS) if self._random.random() < chance else OPEN_ACL

    def _version(self) -> int:
        return self._random.choice((-1, -1, -1, -1, 0, 1, 2, -2))
