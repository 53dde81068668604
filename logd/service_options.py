"""The common part of the options of all ``twistd`` plugins: short errors, and whether a person reads them."""

from __future__ import annotations

import sys
from typing import ClassVar

from twisted.python.usage import Options as UsageOptions
from twisted.python.usage import UsageError


class ServiceOptions(UsageOptions):
    """Options of ``twistd <command>``; a subclass names its ``command``."""

    command: ClassVar[str]

    def parseArgs(self, *arguments: str) -> None:  # noqa: N802  # Twisted calls it
        """Refuse arguments that are not options."""
        if arguments:
            raise UsageError(
                f"{arguments[0]!r} is not an option; options begin with --, see twistd {self.command} --help"
            )

    def parseOptions(self, options: list[str] | None = None) -> None:  # noqa: N802  # Twisted's
        """Parse. Under twistd, which prints its whole help before an error, print only the error and exit with 2."""
        try:
            super().parseOptions(options)  # type: ignore[no-untyped-call]  # Twisted has no annotations there
        except UsageError as error:
            if getattr(self, "parent", None) is None:
                raise
            print(f"twistd {self.command}: {error}", file=sys.stderr)
            print(f'"twistd {self.command} --help" lists the options.', file=sys.stderr)
            raise SystemExit(2) from None

    @property
    def foreground(self) -> bool:
        """True if twistd stays in the foreground, where a person reads its output."""
        parent = getattr(self, "parent", None)
        return parent is not None and bool(parent.get("nodaemon"))
