"""The HTTP side of the console: paths, security headers, who asks, forms, and the stream of live updates."""

from __future__ import annotations

import hmac
import json
import secrets
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from hashlib import sha256
from importlib.resources import files
from typing import Any
from urllib.parse import quote

from attrs import define, field
from twisted.internet.defer import CancelledError, Deferred
from twisted.logger import Logger
from twisted.web.http import parse_qs
from twisted.web.resource import Resource
from twisted.web.server import NOT_DONE_YET, Request

from logd.broker.security.page_quota import PageQuota
from logd.broker.security.requester import Requester
from logd.coord.groups.inspection import UnknownGroup
from logd.deferreds.sleeping import sleep
from logd.errors import (
    AuthenticationFailed,
    ClusterAuthorizationFailed,
    GroupAuthorizationFailed,
    InvalidRequest,
    LogdError,
    TopicAuthorizationFailed,
    UnknownTopic,
)
from logd.net.peer_names import is_called_by_address
from logd.schema_registry.registry import SchemaRegistry
from logd.security.access_rules import AccessRules
from logd.web.console.actions import ConsoleActions
from logd.web.console.pages import Asked, ConsolePages, NoPage, Page
from logd.web.console.rendering import Templates
from logd.web.console.sources import ConsoleSources

#: People who watch live at the same time, on this broker.
MOST_WATCHERS = 100
#: Those of one user among them, who has so many windows or programs.
MOST_OF_ONE_USER = 25
#: Seconds between two looks whether one who watches is still a user, and access rules are as they were.
_LOOK_SECONDS = 0.5
#: Bytes of a form.
MOST_FORM_BYTES = 64 << 10
#: Bytes of an update that a browser has not taken; beyond it the update is left out.
MOST_UNTAKEN = 1 << 20

_HEADERS = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "same-origin",
    "x-frame-options": "DENY",
    "cross-origin-opener-policy": "same-origin",
    "cache-control": "no-store",
}
_TYPES = {".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8", ".svg": "image/svg+xml"}
_FORBIDDEN = (TopicAuthorizationFailed, GroupAuthorizationFailed, ClusterAuthorizationFailed)
_MISSING = (UnknownTopic, UnknownGroup, NoPage)

#: Returns who sends a request. Raises AuthenticationFailed.
Identify = Callable[[Request], Awaitable[Requester]]


async def already_known(request: Request) -> Requester:
    """Return the requester whom the guard of all pages has found, or one who has not authenticated."""
    known = getattr(request, "requester", None)
    if isinstance(known, Requester):
        return known
    return Requester(address=str(getattr(request.getClientAddress(), "host", "")))


@define(eq=False)
class ConsoleResource(Resource):
    """Everything below /console."""

    isLeaf = True  # noqa: N815  # Twisted reads it
    _log = Logger()

    _reactor: Any
    _sources: ConsoleSources
    _identify: Identify = already_known
    #: Names by which a browser may call this broker, beside addresses and localhost, while everything is open.
    _hosts: Callable[[], frozenset[str]] = frozenset
    #: Returns the schema registry, None for none.
    _registry: Callable[[], SchemaRegistry | None] = lambda: None
    _pages: ConsolePages = field(init=False)
    _actions: ConsoleActions = field(init=False)
    _templates: Templates = field(init=False)
    _secret: bytes = field(factory=lambda: secrets.token_bytes(32), init=False)
    #: By user; all together where there are no users.
    _watchers: Counter[str] = field(factory=Counter, init=False)

    def __attrs_post_init__(self) -> None:
        Resource.__init__(self)
        self._pages = ConsolePages(self._sources, self._registry)
        self._actions = ConsoleActions(self._reactor, self._sources)
        self._templates = Templates()

    def render_GET(self, request: Request) -> int | bytes:  # noqa: N802  # Twisted calls it
        """Answer with a page, a file, figures for charts, or a stream of updates."""
        return self._begin(request, self._get)

    def render_POST(self, request: Request) -> int | bytes:  # noqa: N802  # as above
        """Take a form."""
        return self._begin(request, self._post)

    def _begin(self, request: Request, work: Callable[[Request, Requester, tuple[str, ...]], Awaitable[None]]) -> int:
        for name, value in _HEADERS.items():
            request.setHeader(name.encode(), value.encode())
        gone: Deferred[Any] = request.notifyFinish()

        async def answer() -> None:
            try:
                requester = await self._identify(request)
                self._check_host(request)
                path = tuple(part.decode("utf-8", "replace") for part in request.postpath or () if part)
                await work(request, requester, path)
            except CancelledError:
                raise
            except Exception as error:
                self._fail(request, error)

        answering = Deferred.fromCoroutine(answer())
        answering.addErrback(lambda failure: failure.trap(CancelledError))
        gone.addErrback(lambda _: answering.cancel())
        gone.addErrback(lambda failure: self._log.failure("a page was given up", failure))
        return NOT_DONE_YET

    # Reading

    async def _get(self, request: Request, requester: Requester, path: tuple[str, ...]) -> None:
        if path[:1] == ("static",):
            self._file(request, path[1:])
            return
        asked = self._asked(request, requester, path)
        if path == ("history.json",):
            self._send(request, json.dumps(self._history(asked)), "application/json")
        elif path[:1] == ("live",):
            await self._watch(request, self._asked(request, requester, path[1:]))
        else:
            page = await self._pages.page(asked)
            self._send(request, self._templates.page(page, self._common(asked)))

    def _asked(
        self,
        request: Request,
        requester: Requester,
        path: tuple[str, ...],
        form: Mapping[bytes, list[bytes]] | None = None,
    ) -> Asked:
        query = {
            name.decode("utf-8", "replace"): values[-1].decode("utf-8", "replace")
            for name, values in {**(request.args or {}), **(form or {})}.items()
        }
        return Asked(requester, self._sources.broker.authorizer, path, query)

    def _history(self, asked: Asked) -> Mapping[str, Any]:
        from logd.security.access_rules import Operation, ResourceType

        asked.check(Operation.DESCRIBE, ResourceType.CLUSTER)
        return self._sources.history.since(float(asked.number("since", 0)))

    async def _watch(self, request: Request, asked: Asked) -> None:
        """Send a page's live part again and again, whenever it has changed, until the browser goes.

        A user that is removed or has another password is cut off, and a change of access rules makes the page anew.
        """
        fresh: Page | None = await self._pages.page(asked)  # one that may not be shown takes nobody's place
        secured = asked.requester.authenticated or not self._sources.broker.authorizer.open
        user = asked.requester.principal if secured else ""
        if self._watchers.total() >= MOST_WATCHERS or (user and self._watchers[user] >= MOST_OF_ONE_USER):
            request.setResponseCode(503)
            self._send(request, "too many people watch live already", "text/plain; charset=utf-8")
            return
        request.setHeader(b"content-type", b"text/event-stream")
        self._watchers[user] += 1
        quota: PageQuota | None = getattr(request, "quota", None)
        if quota is not None:
            quota.end_request()  # a browser that watches asks for other things beside it
        try:
            before = ""
            request.write(b": begun\n\n")
            while self._sources.broker.authentication.is_current(asked.requester):
                rules = asked.authorizer.rules
                try:
                    page = fresh or await self._pages.page(asked)
                    text, seconds = self._templates.live(page, self._common(asked)), page.live or 5.0
                except LogdError as error:
                    text, seconds = self._templates.problem(str(error)), 5.0
                fresh = None
                if text != before and _untaken(request) < MOST_UNTAKEN:
                    data = "".join(f"data: {line}\n" for line in text.splitlines())
                    request.write(f"event: live\n{data}\n".encode())
                    before = text
                else:
                    request.write(b": alive\n\n")
                await self._pause(seconds, asked, rules, quota)
            request.channel.forceAbortClient()
        finally:
            self._watchers -= Counter((user,))

    async def _pause(self, seconds: float, asked: Asked, rules: AccessRules, quota: PageQuota | None) -> None:
        """Wait, no longer than the one who asked is that user, and ``rules`` are in force.

        A user that has used up its ``quota`` waits longer.
        """
        until = self._reactor.seconds() + seconds
        while (
            ((left := until - self._reactor.seconds()) > 0 or (quota is not None and (left := quota.debt_seconds())))
            and asked.authorizer.rules is rules
            and self._sources.broker.authentication.is_current(asked.requester)
        ):
            await sleep(self._reactor, min(left, _LOOK_SECONDS))

    def _file(self, request: Request, path: tuple[str, ...]) -> None:
        name = "/".join(path)
        if name not in STATIC:
            raise NoPage(f"there is no file {name!r}")
        request.setHeader(b"cache-control", b"max-age=3600")
        data = files("logd.web.console").joinpath("static", *path).read_bytes()
        request.setHeader(b"content-type", _TYPES[name[name.rindex(".") :]].encode())
        request.write(data)
        request.finish()

    # Changing

    async def _post(self, request: Request, requester: Requester, path: tuple[str, ...]) -> None:
        self._check_origin(request)
        asked = self._asked(request, requester, path, _form(request))
        if not hmac.compare_digest(asked.query.get("token", "").encode(), self._token(asked).encode()):
            raise AuthenticationFailed("the form is from another time or another page: load the page again")
        outcome = await self._actions.take(asked)
        if outcome.location:
            request.setResponseCode(303)
            request.setHeader(b"location", outcome.location.encode())
            request.finish()
        elif outcome.page is not None:
            self._send(request, self._templates.page(outcome.page, self._common(asked)))

    def _token(self, asked: Asked) -> str:
        """Return the token of this person's forms: another site cannot read it, so it cannot send them."""
        return hmac.new(self._secret, asked.requester.principal.encode(), sha256).hexdigest()

    def _check_host(self, request: Request) -> None:
        """Refuse a name that some site has bound to this address, while no password is asked for.

        A browser would let that site's scripts read and change everything.
        """
        if not self._sources.broker.authorizer.open:
            return
        host = (request.getRequestHostname() or b"").decode("ascii", "replace").lower()
        if not is_called_by_address(host) and host not in self._hosts():
            raise AuthenticationFailed(
                f"this broker is called {host[:100]!r} here, and it does not know that name: open the console by its "
                "address, or have users and passwords"
            )

    def _check_origin(self, request: Request) -> None:
        origin = (request.getHeader("origin") or "").lower()
        host = (request.getHeader("host") or "").lower()
        site = (request.getHeader("sec-fetch-site") or "same-origin").lower()
        if site not in ("same-origin", "none") or (origin and origin.partition("://")[2] != host):
            raise AuthenticationFailed("the form was sent by another site")

    # Answers

    def _common(self, asked: Asked) -> dict[str, Any]:
        broker = self._sources.broker
        query = "&".join(f"{quote(name)}={quote(value)}" for name, value in asked.query.items() if name != "token")
        return {
            "broker": broker.store.broker_id,
            "principal": asked.requester.principal if asked.requester.authenticated else "",
            "secured": not broker.authorizer.open,
            "path": "/".join(map(quote, asked.path)),
            "query": query,
            "token": self._token(asked),
            "section": asked.path[0] if asked.path else "",
        }

    def _send(self, request: Request, text: str, kind: str = "text/html; charset=utf-8") -> None:
        request.setHeader(b"content-type", kind.encode())
        request.write(text.encode())
        request.finish()

    def _fail(self, request: Request, error: Exception) -> None:
        """Answer with an error as a page, if nothing was sent yet."""
        if request.startedWriting:
            request.loseConnection()
            return
        if isinstance(error, (AuthenticationFailed, *_FORBIDDEN)):
            status = 403
        elif isinstance(error, _MISSING):
            status = 404
        elif isinstance(error, LogdError):
            status = 400
        else:
            self._log.failure("a page of the console failed")
            status, error = 500, LogdError("this page failed; the broker's log has the details")
        if isinstance(error, _FORBIDDEN) and not self._was_named(request):
            status = 401
            request.setHeader(b"www-authenticate", b'Basic realm="logd", charset="UTF-8"')
        request.setResponseCode(status)
        self._send(request, self._templates.error(status, str(error)))

    @staticmethod
    def _was_named(request: Request) -> bool:
        return request.getHeader("authorization") is not None


def _form(request: Request) -> dict[bytes, list[bytes]]:
    """Return the fields of a form in the body. Raises InvalidRequest for one that is too long."""
    content = request.content
    data = content.read(MOST_FORM_BYTES + 1) if content is not None else b""
    if len(data) > MOST_FORM_BYTES:
        raise InvalidRequest(f"the form has more than {MOST_FORM_BYTES} bytes")
    fields: dict[bytes, list[bytes]] = parse_qs(data, 1)
    return fields


def _untaken(request: Request) -> int:
    """Return the bytes that wait in the connection's buffer, where it tells them."""
    transport = getattr(request.channel, "transport", None)
    return len(getattr(transport, "dataBuffer", b"")) + int(getattr(transport, "_tempDataLen", 0))


#: The files that are served, so that no path leads elsewhere.
STATIC = frozenset(("console.css", "console.js", "icon.svg", "vendor/uPlot.iife.min.js", "vendor/uPlot.min.css"))
