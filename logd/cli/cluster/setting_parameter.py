"""A topic's setting on the command line."""

from __future__ import annotations

from typing import Any

import click

from logd.config import LogSettings, parse_assignments
from logd.config.names import unknown
from logd.config.setting import settings_of
from logd.errors import ConfigurationError


class SettingsParameter(click.ParamType[dict[str, int | str]]):
    """A topic's setting as ``key=value``."""

    name = "KEY=VALUE"
    _names = tuple(row.name for row in settings_of(LogSettings))

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> dict[str, int | str]:
        """Refuse an unknown setting and a value that is not allowed."""
        try:
            name, equals, _ = str(value).partition("=")
            if equals and name.strip() not in self._names:
                raise unknown(name.strip(), self._names)
            values: Any = parse_assignments([value], self.name).values
            LogSettings().overridden(values)
        except ConfigurationError as error:
            self.fail(str(error), param, ctx)
        return dict(values)
