"""Finds the user and the password of a client: in its settings, or in the environment."""

from __future__ import annotations

import os
from base64 import b64encode
from collections.abc import Mapping

from logd.errors import ConfigurationError
from logd.security.credentials import Credentials, FindCredentials
from logd.security.users import check_password

#: The variables for a schema registry begin so: LOGD_REGISTRY_USER, and LOGD_REGISTRY_PASSWORD_FILE or
#: LOGD_REGISTRY_PASSWORD. Those of brokers are not used there: HTTP without TLS sends the password as it is.
REGISTRY_PREFIX = "LOGD_REGISTRY_"
#: A password file is read up to here.
MOST_FILE_BYTES = 4096


def find_credentials(
    user: str | None,
    password: str | None,
    password_file: str | None,
    environment: Mapping[str, str] = os.environ,
    prefix: str = "LOGD_",
) -> FindCredentials | None:
    """Return the function that tells whom to connect as; None for nobody.

    Without ``user``, that of the environment (LOGD_USER; with another ``prefix``, another variable), and without a
    password and a file, those of the environment (LOGD_PASSWORD, LOGD_PASSWORD_FILE). An empty user is nobody. A file
    is read again for each connection. Raises ConfigurationError, which never shows a password.
    """
    named = environment.get(f"{prefix}USER", "") if user is None else user
    given = password is not None or password_file is not None
    if not named:
        if given:
            raise ConfigurationError("password and password_file are not allowed without a user: give user='NAME'")
        return None
    if not given:
        password = environment.get(f"{prefix}PASSWORD")
        password_file = environment.get(f"{prefix}PASSWORD_FILE")
    if (password is None) == (password_file is None):
        raise ConfigurationError(
            f"the user {named!r} needs one password: give {prefix}PASSWORD_FILE or {prefix}PASSWORD in the "
            "environment, in a program password_file='FILE' or password=..., and not several of them"
        )
    if password_file is not None:
        path: str = password_file
        read_password(path)
        return lambda: Credentials(named, read_password(path))
    assert password is not None
    credentials = Credentials(named, check_password(password))
    return lambda: credentials


def credentials_of_environment(
    prefix: str = "LOGD_", environment: Mapping[str, str] = os.environ
) -> Credentials | None:
    """Return the user and password of the environment, None without them. Raises ConfigurationError."""
    find = find_credentials(None, None, None, environment, prefix)
    return None if find is None else find()


def read_password(path: str) -> str:
    """Return the password in a file: its first line. Raises ConfigurationError."""
    try:
        with open(path, "rb") as file:
            content = file.read(MOST_FILE_BYTES + 1)
        text = content.decode()
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "it is not UTF-8"
        raise ConfigurationError(f"the password file {path} cannot be read: {reason}") from None
    lines = text.splitlines()
    if len(lines) != 1 or len(content) > MOST_FILE_BYTES:
        raise ConfigurationError(
            f"the password file {path} has {len(lines)} lines; allowed is one line, which is the password"
        )
    return check_password(lines[0])


def basic(user: str, password: str) -> str:
    """Return the value of HTTP's header Authorization for a user and a password (RFC 7617)."""
    return f"Basic {b64encode(f'{user}:{password}'.encode()).decode()}"
