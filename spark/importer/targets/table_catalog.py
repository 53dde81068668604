"""The catalog of an Iceberg table: opens it, also while others make it, and says in one sentence what is wrong with it.

A warehouse in a folder has a catalog in SQLite. pyiceberg looks for its tables there and then creates them, so of two
imports that are the first ones of a warehouse one may meet a table that was not there a moment ago. It looks again.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from pyiceberg.catalog import load_catalog

from logd.spark.importer.table_location import CATALOG_FILE, TableLocation

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog

T = TypeVar("T")

#: Attempts of a first import: a catalog has two tables, and one row for each part of a namespace.
_ATTEMPTS = 8


def open_catalog(name: TableLocation) -> Catalog:
    """Return the catalog; one in a folder is made if there is none. Raises what the catalog's library raises."""
    if name.catalog:
        return load_catalog(name.catalog)
    os.makedirs(name.folder, exist_ok=True)
    place = {"uri": f"sqlite:///{name.folder}/{CATALOG_FILE}", "warehouse": f"file://{name.folder}"}
    return beside_others(lambda: load_catalog("default", type="sql", **place))


def beside_others(make: Callable[[], T]) -> T:
    """Return ``make()``, called again if another process has just made in a catalog what this one is making."""
    for _ in range(_ATTEMPTS - 1):
        try:
            return make()
        except Exception as error:  # the libraries of catalogs have no common type
            if not _is_made_meanwhile(error):
                raise
    return make()


def explained(error: Exception, name: TableLocation) -> str:
    """Return a catalog's error in one sentence, with the remedy where it is one of SQL."""
    cause = _sqlite_error(error)
    if cause is None:
        # SQLAlchemy adds the statement, its parameters and an address to what a database says.
        said = getattr(error, "orig", None) or error
        return " ".join(str(said).split()) or type(error).__name__
    place = f"{name.folder}/{CATALOG_FILE}" if name.folder else "in SQLite"
    if "locked" in str(cause) or "busy" in str(cause) or _is_made_meanwhile(error):
        return (
            f"its catalog {place} is in use by another process ({cause}): import again; where several write at a time, "
            "use a catalog of pyiceberg's configuration, iceberg://CATALOG/NAMESPACE.TABLE"
        )
    return (
        f"its catalog {place} cannot be used: {cause}; see to the file and its folder, restore it from a backup, or "
        "import into another folder"
    )


def _sqlite_error(error: BaseException) -> sqlite3.Error | None:
    cause = getattr(error, "orig", None)
    return cause if isinstance(cause, sqlite3.Error) else None


def _is_made_meanwhile(error: BaseException) -> bool:
    cause = _sqlite_error(error)
    return cause is not None and ("already exists" in str(cause) or isinstance(cause, sqlite3.IntegrityError))
