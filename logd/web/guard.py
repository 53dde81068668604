"""Asks who each HTTP request comes from, by HTTP's basic authentication or a certificate, before anything answers it.

/health says whether the server works to everybody, and the details to those who may describe the cluster. All other
pages find in ``BoundedRequest.requester`` who asks, and ``require`` refuses a request.
"""

from __future__ import annotations

import json
from base64 import b64decode
from binascii import Error
from collections.abc import Callable
from ipaddress import ip_address
from typing import Any, Protocol

from twisted.internet.defer import CancelledError, Deferred
from twisted.logger import Logger
from twisted.python.failure import Failure
from twisted.web.resource import IResource, Resource, getChildForRequest
from twisted.web.server import NOT_DONE_YET, Request

from logd.broker.security.authentication import CERTIFICATE, Authentication
from logd.broker.security.authorizer import Authorizer
from logd.broker.security.certificates import principal_of
from logd.broker.security.quotas import Quotas
from logd.broker.security.requester import Requester
from logd.broker.security.rights import Rights
from logd.errors import AuthenticationFailed, CoordinationUnavailable, WireError
from logd.net.peer_names import is_called_by_address
from logd.security.access_rules import Operation, ResourceType
from logd.security.scram import MOST_BYTES, REFUSAL
from logd.web.bounded_request import BoundedRequest
from logd.web.schema_rights import SCHEMA_PATHS, may_use_schemas

#: The mechanism of basic authentication, in log lines and metrics.
HTTP = "HTTP"
#: Requests that wait for a password to be checked, or for the answer to a wrong one; further ones are told to wait.
MOST_WAITING = 500
_READING = (b"GET", b"HEAD", b"OPTIONS")


class Guards(Protocol):
    """The users and rules of a broker."""

    @property
    def authentication(self) -> Authentication:
        """Checks who asks."""
        ...

    @property
    def authorizer(self) -> Authorizer:
        """Decides what they may do."""
        ...

    @property
    def quotas(self) -> Quotas | None:
        """Limits what they use; None where there are no quotas."""
        ...


#: Pages that programs ask for, to see how the server is.
_WITHOUT_DELAY = ("health", "metrics")


class PageRefused(Exception):
    """A request that is not served, with the HTTP status to answer."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


class GuardedPages(Resource):
    """The root of the pages: finds out who asks, and then lets ``pages`` answer."""

    isLeaf = True  # noqa: N815  # Twisted reads it
    _log = Logger()

    def __init__(self, pages: IResource, guards: Callable[[], Guards | None], principal: str = "CN") -> None:
        """``guards()`` returns None before the server has started; ``principal``: see security.client.principal."""
        super().__init__()  # type: ignore[no-untyped-call]  # Twisted has no annotations there
        self._pages = pages
        self._guards = guards
        self._principal = principal
        self._waiting = 0

    def render(self, request: BoundedRequest) -> Any:
        """Answer any method, at once or later."""
        answering = Deferred.fromCoroutine(self._begin(request))
        request.notifyFinish().addErrback(lambda _: answering.cancel())
        answering.addCallback(lambda _: self._answer(request))
        answering.addErrback(self._refuse, request)
        return NOT_DONE_YET

    async def _begin(self, request: BoundedRequest) -> None:
        await self._identify(request)
        await self._keep_quota(request)

    async def _identify(self, request: BoundedRequest) -> None:
        """Find out who asks. Raises PageRefused, after a while for a wrong password."""
        guards = self._guards()
        requester = request.requester = Requester(address=getattr(request.getClientAddress(), "host", ""))
        if guards is None:
            return
        request.rights = Rights(guards.authorizer, requester)
        self._take_certificate(request, requester, guards)
        check_origin(request)
        header = request.getHeader("authorization")
        if header is None or not guards.authentication.has_users:
            return
        if not request.isSecure() and not is_near(requester.address):
            raise PageRefused(
                403,
                "a password was sent without TLS, and may have been read on its way: change it, and serve these pages "
                "by TLS (http = 'ssl:...')",
            )
        if self._waiting >= MOST_WAITING:
            raise PageRefused(503, "too many passwords are being checked; try again later")
        self._waiting += 1
        user = ""
        try:
            user, password = read_basic(header)
            await guards.authentication.check_password(user, password)
        except AuthenticationFailed as error:
            await guards.authentication.failed(requester, HTTP, user)
            raise PageRefused(401, str(error)) from None
        except WireError as error:
            raise PageRefused(503, str(error)) from None
        finally:
            self._waiting -= 1
        guards.authentication.prove(requester, user, HTTP)

    async def _keep_quota(self, request: BoundedRequest) -> None:
        """Wait while the quota of the one who asks is used up; /health and /metrics are counted, and do not wait.

        A supervisor that is kept waiting would start the broker again, and /metrics say which quotas are used up.
        """
        guards, requester = self._guards(), request.requester
        quotas = guards.quotas if guards is not None else None
        quota = quotas.page(requester) if quotas is not None and requester is not None else None
        if quota is None:
            return
        request.quota = quota
        request.notifyFinish().addBoth(lambda _: quota.leave())
        quota.received(request.received_bytes)
        if _first_part(request) in _WITHOUT_DELAY:
            return
        await quota.begin()
        if guards is not None and requester is not None and not guards.authentication.is_current(requester):
            raise PageRefused(401, REFUSAL)  # removed meanwhile

    def _take_certificate(self, request: BoundedRequest, requester: Requester, guards: Guards) -> None:
        """Take the one who asks for the user of the certificate, if there is one. Raises PageRefused."""
        transport: Any = request.transport
        certificate = transport.getPeerCertificate() if request.isSecure() else None
        if certificate is None:
            return
        try:
            principal = principal_of(certificate, self._principal)
        except AuthenticationFailed as error:
            raise PageRefused(403, str(error)) from None
        guards.authentication.prove(requester, principal, CERTIFICATE)

    def _answer(self, request: BoundedRequest) -> None:
        first = _first_part(request)
        if self._guards() is None:
            if first != "health":
                raise PageRefused(503, "the broker is starting; try again")
        elif first == "metrics":
            require(request, Operation.DESCRIBE, ResourceType.CLUSTER)
        elif first in SCHEMA_PATHS:
            check_name(request)
            if not may_use_schemas(request):
                refuse(request, "no access rule lets {user} do this with schemas; ask an administrator for one")
        request.render(getChildForRequest(self._pages, request))

    def _refuse(self, failure: Failure, request: BoundedRequest) -> None:
        if failure.check(CancelledError):  # the client has gone
            return
        error = failure.value
        if isinstance(error, PageRefused):
            status = error.status
        else:
            self._log.failure("a request for a page failed", failure)
            status = 500
        if request.startedWriting:
            request.channel.forceAbortClient()
            return
        text = failure.getErrorMessage() if status != 500 else "Internal Server Error"
        request.setResponseCode(status)
        if status == 401:
            request.setHeader(b"www-authenticate", b'Basic realm="logd", charset="UTF-8"')
        body = json.dumps({"error_code": status, "message": text}).encode() + b"\n"
        request.setHeader(b"content-type", b"application/json")
        request.setHeader(b"cache-control", b"no-store")
        request.setHeader(b"content-length", str(len(body)).encode())
        request.write(body)
        request.finish()


def _first_part(request: BoundedRequest) -> str:
    return request.postpath[0].decode("ascii", "replace") if request.postpath else ""


def require(request: Request, operation: Operation, kind: ResourceType, name: str = "cluster") -> None:
    """Raise PageRefused unless the one who asks may do this; 401 if a user and a password may help, else 403."""
    rights = getattr(request, "rights", None)
    if rights is None:
        return
    refusal = rights.authorizer.refusal(rights.requester, operation, kind, name)
    if isinstance(refusal, CoordinationUnavailable):
        raise PageRefused(503, str(refusal))
    if refusal is not None:
        raise PageRefused(403 if rights.requester.authenticated else 401, str(refusal))


def refuse(request: BoundedRequest, text: str) -> None:
    """Raise PageRefused; in ``text``, ``{user}`` stands for the one who asks."""
    requester = request.requester
    if requester is not None and requester.authenticated:
        raise PageRefused(403, text.format(user=requester.principal))
    raise PageRefused(401, "authenticate with a user and a password")


def may_see_details(request: Request) -> bool:
    """Return whether the one who asks may see what goes on in the cluster."""
    rights = getattr(request, "rights", None)
    return rights is None or rights.may(Operation.DESCRIBE, ResourceType.CLUSTER)


def read_basic(header: str) -> tuple[str, str]:
    """Return the user and the password of a header Authorization (RFC 7617). Raises AuthenticationFailed."""
    scheme, _, text = header.strip().partition(" ")
    try:
        if scheme.lower() != "basic" or len(text) > 2 * MOST_BYTES:
            raise ValueError
        user, mark, password = b64decode(text.strip(), validate=True).decode().partition(":")
    except (ValueError, Error):
        raise AuthenticationFailed("only HTTP's basic authentication is known") from None
    if not mark or not user:
        raise AuthenticationFailed(REFUSAL)
    return user, password


def check_origin(request: Request) -> None:
    """Raise PageRefused for a change that another site's page has a browser send, with the password that it knows."""
    origin = request.getHeader("origin")
    if origin is None or request.method in _READING:
        return
    if origin.partition("://")[2].lower() != (request.getHeader("host") or "").lower():
        raise PageRefused(403, f"a page of {origin[:100]} may not change anything here")


def check_name(request: BoundedRequest) -> None:
    """Raise PageRefused for a change by a page of a name that some site may have bound to this server's address.

    While everything is open nothing else tells such a page from one that is meant to change something.
    """
    rights = request.rights
    if rights is None or not rights.authorizer.open or request.method in _READING:
        return
    host = (request.getRequestHostname() or b"").decode("ascii", "replace").lower()
    if request.getHeader("origin") is not None and not is_called_by_address(host):
        raise PageRefused(403, f"a page of {host[:100]!r} may not change anything here: use this server's address")


def is_near(host: str) -> bool:
    """Return whether a client is on this machine, so that nobody else reads what it sends."""
    try:
        address = ip_address(host.partition("%")[0])
        return (getattr(address, "ipv4_mapped", None) or address).is_loopback  # as a port for both families has it
    except ValueError:
        return host == ""  # a local socket
