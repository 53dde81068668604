"""Endpoints with TLS that do what descriptions of Twisted's cannot say: ask clients for a certificate, ignore ALPN."""

from __future__ import annotations

from typing import Any

from attrs import define, field
from twisted.internet.interfaces import IOpenSSLContextFactory, IProtocolNegotiationFactory
from zope.interface import implementer

from logd.errors import ConfigurationError


@define(eq=False)
class ListenersReactor:
    """A reactor for ``serverFromString``, whose ssl: endpoints do that."""

    _reactor: Any
    #: The path of the authorities' certificates, in PEM; with None clients are not asked for any.
    _authorities: str | None
    #: Refuse clients without a certificate.
    _required: bool

    def listenSSL(self, port: int, factory: Any, contextFactory: Any, *more: Any, **named: Any) -> Any:  # noqa: N802, N803
        """See IReactorSSL. Raises ConfigurationError for authorities that cannot be read."""
        if not IProtocolNegotiationFactory.providedBy(factory):
            _ignore_protocols(contextFactory.getContext())
        if self._authorities is not None:
            contextFactory = _AskingContext(contextFactory, self._authorities, self._required)  # noqa: N806
            contextFactory.getContext()  # a file that cannot be read shows now, and not at the first client
        return self._reactor.listenSSL(port, factory, contextFactory, *more, **named)

    def __getattr__(self, name: str) -> Any:
        """Do everything else as the reactor does it."""
        return getattr(self._reactor, name)


@implementer(IOpenSSLContextFactory)
@define(eq=False)
class _AskingContext:
    """A context factory whose context asks for certificates."""

    _inner: Any
    _authorities: str
    _required: bool
    _context: Any = field(default=None, init=False)

    def getContext(self) -> Any:  # noqa: N802  # Twisted calls it
        """Return the context."""
        if self._context is None:
            from OpenSSL import SSL  # of the extra tls, without which there is no ssl: endpoint

            context = self._inner.getContext()
            try:
                context.load_verify_locations(self._authorities)
                context.set_client_ca_list(_names(self._authorities))
            except (SSL.Error, OSError, ValueError) as error:
                raise ConfigurationError(
                    f"security.client.authorities: {self._authorities} cannot be used: {error or 'no certificates'}"
                ) from None
            mode = SSL.VERIFY_PEER | (SSL.VERIFY_FAIL_IF_NO_PEER_CERT if self._required else 0)
            context.set_verify(mode)
            context.set_session_id(b"logd clients")  # without it OpenSSL resumes no session of such a client
            self._context = context
        return self._context


def _names(path: str) -> list[Any]:
    """Return the names of the authorities, which clients are told, so that they send the fitting certificate."""
    from cryptography import x509
    from OpenSSL.crypto import X509

    with open(path, "rb") as file:
        found = x509.load_pem_x509_certificates(file.read())
    return [X509.from_cryptography(each).get_subject() for each in found]


def _ignore_protocols(context: Any) -> None:
    """Accept clients that name protocols by ALPN, as if they had not: Twisted's endpoints refuse those from 26.10 on.

    Some proxies, and the TLS of some languages, name protocols on each connection. One that speaks HTTP is recognized
    by its first bytes.
    """
    from OpenSSL import SSL  # of the extra tls, without which there is no ssl: endpoint

    context.set_alpn_select_callback(lambda connection, named: SSL.NO_OVERLAPPING_PROTOCOLS)


def reactor_for_listeners(reactor: Any, authorities: str | None = None, required: bool = False) -> ListenersReactor:
    """Return a reactor whose ssl: endpoints ignore ALPN, unless their factory knows protocols.

    With ``authorities`` they also ask for certificates that these have signed, and refuse clients without one if that
    is ``required``.
    """
    return ListenersReactor(reactor, authorities, required)
