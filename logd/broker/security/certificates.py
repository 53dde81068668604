"""The user whom a client's TLS certificate names, once TLS has checked that it is the client's."""

from __future__ import annotations

from typing import Any

from logd.errors import AuthenticationFailed, ConfigurationError
from logd.security.users import check_user_name


def principal_of(certificate: Any, source: str) -> str:
    """Return the user of a pyOpenSSL certificate; ``source`` is the setting security.client.principal.

    Raises AuthenticationFailed for one that names none, or one that no user may be called.
    """
    names = _common_names(certificate) if source == "CN" else _alternative_names(certificate)
    if len(names) != 1:
        raise AuthenticationFailed(f"its certificate has {len(names)} names of the kind {source}, and one is needed")
    try:
        return check_user_name(names[0])
    except ConfigurationError as error:
        raise AuthenticationFailed(f"its certificate names no user: {error}") from None


def _common_names(certificate: Any) -> list[str]:
    from cryptography.x509.oid import NameOID

    subject = certificate.to_cryptography().subject
    return [str(each.value) for each in subject.get_attributes_for_oid(NameOID.COMMON_NAME)]


def _alternative_names(certificate: Any) -> list[str]:
    from cryptography.x509 import DNSName, ExtensionNotFound, SubjectAlternativeName

    try:
        found = certificate.to_cryptography().extensions.get_extension_for_class(SubjectAlternativeName)
    except ExtensionNotFound:
        return []
    return [str(each) for each in found.value.get_values_for_type(DNSName)]
