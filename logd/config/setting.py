"""A setting: its dotted name, kind, default and meaning, stored on the field that holds its value."""

from __future__ import annotations

from typing import Any

import attrs

from logd.config.kinds import Kind
from logd.errors import ConfigurationError

_KEY = "logd.setting"


@attrs.frozen
class Setting:
    """One row of the table from which file, command line, validation and documentation are derived."""

    name: str
    kind: Kind
    default: object
    meaning: str
    #: True when a value has to be given.
    required: bool = False
    #: The option on the command line, without dashes; "" when there is only ``--set``.
    option: str = ""
    #: True when the value is never shown.
    secret: bool = False

    @property
    def field_name(self) -> str:
        """The name of the Python attribute."""
        return self.name.replace(".", "_")

    def check(self, value: object) -> None:
        """Raise ConfigurationError unless ``value`` is allowed; it names the key, the value and what is allowed."""
        if value is None and self.default is None and not self.required:
            return
        if not self.kind.accepts(value):
            raise self.refusal(value)

    def parse(self, text: str) -> object:
        """Parse a value of the command line. Raises ConfigurationError if it is not allowed."""
        try:
            value = self.kind.parse(text)
        except ValueError:
            raise self.refusal(text) from None
        self.check(value)
        return value

    def refusal(self, value: object) -> ConfigurationError:
        """Return the error for a value that is not allowed."""
        shown = "..." if self.secret else repr(value)
        return ConfigurationError(f"{self.name} = {shown} is not allowed; allowed is {self.kind.allowed}")


def setting(
    name: str,
    kind: Kind,
    default: object,
    meaning: str,
    *,
    option: bool | str = False,
    required: bool = False,
    secret: bool = False,
) -> Any:
    """Return an attrs field that holds its Setting and validates values with it.

    ``option`` is True for a command-line option of the setting's name, or the option's name. A ``secret`` value
    appears in no error and no ``repr``.
    """
    called = option if isinstance(option, str) else name if option else ""
    row = Setting(
        name=name, kind=kind, default=default, meaning=meaning, required=required, option=called, secret=secret
    )
    return attrs.field(
        default=attrs.NOTHING if required else default,
        validator=lambda _instance, _attribute, value: row.check(value),
        metadata={_KEY: row},
        repr=not secret,
    )


def settings_of(cls: type[attrs.AttrsInstance]) -> tuple[Setting, ...]:
    """Return the settings of a settings class, in the order of its fields."""
    return tuple(field.metadata[_KEY] for field in attrs.fields(cls) if _KEY in field.metadata)
