"""Validators for the clients' settings. Each error names the setting, its value and the allowed values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from logd.audit.event import ALL_ORIGINS, MOST_NAME, is_name
from logd.errors import ConfigurationError, InvalidTopic
from logd.topic import check_topic_name

Validator = Callable[[Any, Any, Any], None]


def _refuse(name: str, value: object, allowed: str) -> ConfigurationError:
    return ConfigurationError(f"{name} = {value!r} is not allowed; allowed is {allowed}")


def whole(minimum: int, maximum: int, unit: str = "") -> Validator:
    """Return a validator for a whole number within bounds."""

    def check(_instance: Any, attribute: Any, value: Any) -> None:
        if type(value) is not int or not minimum <= value <= maximum:  # True is an int to isinstance
            unit_text = f" of {unit}" if unit else ""
            raise _refuse(attribute.name, value, f"a whole number{unit_text} from {minimum} to {maximum}")

    return check


def seconds(minimum: float, maximum: float) -> Validator:
    """Return a validator for a number of seconds within bounds."""

    def check(_instance: Any, attribute: Any, value: Any) -> None:
        if isinstance(value, bool) or not isinstance(value, int | float) or not minimum <= value <= maximum:
            raise _refuse(attribute.name, value, f"a number of seconds from {minimum:g} to {maximum:g}")

    return check


def one_of(*allowed: str) -> Validator:
    """Return a validator for one of a few words."""

    def check(_instance: Any, attribute: Any, value: Any) -> None:
        if value not in allowed:
            raise _refuse(attribute.name, value, "one of " + ", ".join(map(repr, allowed)))

    return check


def switch(_instance: Any, attribute: Any, value: Any) -> None:
    """Validate True or False."""
    if not isinstance(value, bool):
        raise _refuse(attribute.name, value, "True or False")


def server_name(_instance: Any, attribute: Any, value: Any) -> None:
    """Validate the name of a server in the audit; empty is the host name."""
    if not is_name(value) or value == ALL_ORIGINS:
        allowed = f"a text of at most {MOST_NAME} printable characters, but not {ALL_ORIGINS!r}"
        raise _refuse(attribute.name, value, allowed)


def topic_or_none(_instance: Any, attribute: Any, value: Any) -> None:
    """Validate the name of a topic; empty for none."""
    try:
        if not isinstance(value, str):
            raise InvalidTopic("a name is a text")
        if value:
            check_topic_name(value)
    except InvalidTopic as error:
        raise ConfigurationError(f"{attribute.name} = {value!r} is not allowed: {error}") from None


def text_or_none(_instance: Any, attribute: Any, value: Any) -> None:
    """Validate a text, or None. The error does not show the value, which may be a password."""
    if value is not None and not isinstance(value, str):
        raise ConfigurationError(f"{attribute.name} is a {type(value).__name__}; allowed is a text, or None")
