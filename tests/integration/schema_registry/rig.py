"""Registries in processes of their own, over one coordination tree."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from logd.testing.processes.coordination import CoordinationProcess
from logd.testing.processes.schema_registry import SchemaRegistryProcess
from logd.testing.processes.zookeeper import ZooKeeperProcess
from tests.integration.peers import PATIENCE


def ask(url: str, path: str, body: Any = None, method: str | None = None) -> tuple[int, Any]:
    """Send JSON with Python's own client; return status and answer. Blocks."""
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(f"{url}{path}", data, {"content-type": "application/json"}, method=method)
    try:
        with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.load(error)


def record(*fields: str, name: str = "User") -> str:
    """Return a record with fields of type string; "x=" has the default ""."""
    rows: list[dict[str, Any]] = []
    for each in fields:
        row = {"name": each.rstrip("="), "type": "string"}
        rows.append({**row, "default": ""} if each.endswith("=") else row)
    return json.dumps({"type": "record", "name": name, "fields": rows})


class RegistryProcessTestCase(SynchronousTestCase):
    """A test with ``count`` registries over one coordination tree."""

    count = 1

    def make_tree(self, data: str) -> CoordinationProcess | ZooKeeperProcess:
        """Return the tree, not started: ``logd zookeeper`` unless a subclass makes another one."""
        return CoordinationProcess(data)

    def setUp(self) -> None:
        """Start them."""
        folder = Path(self.mktemp())
        folder.mkdir(parents=True)
        tree = self.make_tree(str(folder / "tree")).start()
        self.addCleanup(tree.stop)
        self.tree = tree
        self.registries = []
        for number in range(self.count):
            registry = SchemaRegistryProcess(tree.hosts, str(folder / f"registry{number}.log")).start()
            self.addCleanup(self.end, registry)
            self.registries.append(registry)
        self.url = self.registries[0].url

    def end(self, registry: SchemaRegistryProcess) -> None:
        """Stop a registry; its log has no traceback."""
        log = Path(registry.log).read_text(encoding="utf-8")
        registry.stop()
        self.assertNotIn("Traceback", log)
