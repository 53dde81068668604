"""The error that a simulation raises for a broken promise."""

from __future__ import annotations

from typing import ClassVar


class Violation(AssertionError):
    """A promise was broken; the text says which, by which process, and where.

    Many are raised inside callbacks of Deferreds, which swallow them: so each is noted in ``noted``.
    """

    noted: ClassVar[list[Violation]] = []

    def __init__(self, text: str, *details: object) -> None:
        super().__init__(text + (": " + ", ".join(map(repr, details)) if details else ""))
        self.noted.append(self)


def check(condition: bool, text: str, *details: object) -> None:
    """Raise Violation unless ``condition``."""
    if not condition:
        raise Violation(text, *details)
