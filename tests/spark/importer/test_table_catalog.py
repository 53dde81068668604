"""Tests of logd.spark.importer.targets.table_catalog: several first imports, and a catalog that cannot be used."""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path
from typing import Any
from unittest import mock

from logd.spark.importer.errors import TargetError
from tests.spark.importer.tables import MISSING, TableTestCase, setUpModule

__all__ = ["setUpModule"]

if not MISSING:
    from pyiceberg.catalog.sql import SqlCatalog

    from logd.spark.importer.targets import table_catalog


class CatalogTests(TableTestCase):
    """A catalog in SQLite."""

    def test_the_first_imports_of_a_warehouse_make_one_catalog(self) -> None:
        """Another one makes the tables, and the namespace, between the look and the creation of this one."""
        rivals: list[str] = []
        create_tables, namespace_exists = SqlCatalog.create_tables, SqlCatalog.namespace_exists

        def rival(name: str) -> None:
            if name not in rivals:
                rivals.append(name)
                self.opened().acquire()

        def create(catalog: SqlCatalog) -> None:
            rival("tables")
            create_tables(catalog)

        def look(catalog: SqlCatalog, namespace: Any) -> bool:
            found = namespace_exists(catalog, namespace)
            rival("namespace")
            return found

        with mock.patch.object(SqlCatalog, "create_tables", create):
            self.target.acquire()
        self.folder += "-other"
        self.to = f"iceberg://{self.folder}/logs.clicks"
        with mock.patch.object(SqlCatalog, "namespace_exists", look):
            self.opened().acquire()
        self.assertEqual((rivals, self.table().name()), (["tables", "namespace"], ("logs", "clicks")))

    def test_a_race_that_is_met_again_and_again_is_one_sentence(self) -> None:
        """So is a lock that another process keeps."""
        for cause in (sqlite3.OperationalError("database is locked"), sqlite3.IntegrityError("UNIQUE failed: x")):
            error: Any = Exception("(sqlite3.OperationalError) [SQL: CREATE ...]")
            error.orig = cause
            with (
                mock.patch.object(table_catalog, "load_catalog", side_effect=error),
                self.assertRaisesRegex(TargetError, f"{cause}\\): import again; where several write") as raised,
            ):
                self.target.acquire()
            self.assertNotIn("SQL:", str(raised.exception))

    def test_a_file_that_is_no_catalog_is_one_sentence(self) -> None:
        """It names the file, and has no statement of SQL."""
        os.makedirs(self.folder)
        Path(self.folder, "catalog.db").write_bytes(b"not a database" * 100)
        with self.assertRaisesRegex(TargetError, "catalog.db cannot be used: file is not a database; see to") as raised:
            self.opened()
        self.assertNotIn("SQL:", str(raised.exception))
