"""Renders the templates of the console (the package jinja2, of the extra ``console``)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from logd.web.console.pages import Page
from logd.web.console.texts import FILTERS


class Templates:
    """All templates. What they show is escaped, unless a template says otherwise."""

    def __init__(self) -> None:
        self._environment = Environment(
            loader=PackageLoader("logd.web.console"),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self._environment.filters.update(FILTERS)
        self._environment.globals["link"] = _link

    def page(self, page: Page, common: Mapping[str, Any]) -> str:
        """Return a whole page."""
        live = Markup(self.live(page, common))  # rendered, and escaped, by a template
        return self._environment.get_template("base.html").render(
            **common, title=page.title, live=live, updates=page.live, problem=""
        )

    def live(self, page: Page, common: Mapping[str, Any]) -> str:
        """Return the part of a page that changes."""
        return self._environment.get_template(f"{page.template}.html").render(**common, **page.values)

    def problem(self, text: str) -> str:
        """Return the part that stands in a page's place while it cannot be made."""
        return self._environment.get_template("problem.html").render(text=text)

    def error(self, status: int, text: str) -> str:
        """Return a page that says what is wrong."""
        return self._environment.get_template("error.html").render(status=status, text=text)


def _link(query: Mapping[str, str], **changes: object) -> str:
    """Return a query with some fields changed."""
    return "?" + urlencode({**query, **{name: str(value) for name, value in changes.items()}})
