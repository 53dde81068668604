"""Certificates of TLS connections without Twisted: those that a client trusts, and its own."""

from __future__ import annotations

import ssl
from pathlib import Path

from logd.errors import ConfigurationError
from logd.protocol.optional_packages import pip_install


def tls_context(
    trust_file: str | None, trust_folder: str | None, certificate: str | None, key: str | None
) -> ssl.SSLContext:
    """Return the TLS context of connections. Without a file or a folder (of ``*.pem``) the system's are trusted.

    Raises ConfigurationError when one cannot be read.
    """
    try:
        if trust_folder is None:
            context = ssl.create_default_context(cafile=trust_file)
        else:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            files = [path for path in Path(trust_folder).iterdir() if path.suffix.lower() == ".pem"]
            if trust_file is not None:
                files.append(Path(trust_file))
            for path in files:
                context.load_verify_locations(cafile=path)
        if certificate is not None:
            context.load_cert_chain(certificate, key)
    except OSError as error:  # ssl.SSLError is one
        named = ", ".join(each for each in (trust_file, trust_folder, certificate, key) if each is not None)
        raise ConfigurationError(f"the certificates for TLS ({named}) cannot be used: {error}") from None
    return context


def endpoint_problem(error: Exception) -> str:
    """Return why an endpoint's description cannot be used, from the error of Twisted's parser."""
    # Of a client's endpoint Twisted's parser uses a name that its import of pyOpenSSL has not defined.
    if (isinstance(error, ModuleNotFoundError) and error.name == "OpenSSL") or (
        isinstance(error, NameError) and error.name == "optionsForClientTLS"
    ):
        return f"TLS needs packages that are not installed: {pip_install('tls')}"
    return str(error) or type(error).__name__
