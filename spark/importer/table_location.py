"""Locations of Iceberg tables: ``iceberg://CATALOG/NAMESPACE.TABLE`` and ``iceberg:///DIR/NAMESPACE.TABLE``."""

from __future__ import annotations

import re
from urllib.parse import urlsplit

from attrs import frozen

from logd.errors import ConfigurationError

SCHEME = "iceberg"

#: The file in a warehouse folder that has its catalog, for SQLite.
CATALOG_FILE = "catalog.db"

_FORMS = f"{SCHEME}://CATALOG/NAMESPACE.TABLE, or {SCHEME}:///DIR/NAMESPACE.TABLE for a warehouse in a local folder"
_NAME = re.compile(r"[A-Za-z0-9_-]+(?:\.[A-Za-z0-9_-]+)+\Z")
#: Characters that pyiceberg takes for parts of a URL in the paths of files, or leaves out of them.
_NOT_IN_PATHS = frozenset("#?%\t\r\n")


@frozen
class TableLocation:
    """One table. ``catalog`` is a name in pyiceberg's configuration; if it is empty, ``folder`` has its own catalog."""

    catalog: str
    folder: str
    #: Namespace and name, joined by dots.
    table: str

    @property
    def namespace(self) -> str:
        """All parts of the table's name but the last."""
        return self.table.rpartition(".")[0]

    def __str__(self) -> str:
        return f"{SCHEME}://{self.catalog}{self.folder}/{self.table}"


def is_table(to: str) -> bool:
    """Return True if the target ``to`` is to be a table."""
    return to.startswith(f"{SCHEME}:")


def parse_table(to: str) -> TableLocation:
    """Return the table that ``to`` names. Raises ConfigurationError that shows the forms."""
    parts = urlsplit(to)
    folder, _, table = to.removeprefix(f"{SCHEME}://{parts.netloc}").rpartition("/")
    well_formed = is_table(to) and to.startswith(f"{SCHEME}://") and bool(parts.netloc) != bool(folder)
    if not well_formed or not _NAME.match(table) or _NOT_IN_PATHS & set(folder):
        raise ConfigurationError(f"the target {to!r} names no table: write {_FORMS}")
    return TableLocation(parts.netloc, folder, table)
