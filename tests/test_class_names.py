"""Holds that a class name has one meaning in the whole package."""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from tests.layering import read_tree

ROOT = Path(__file__).resolve().parent.parent


class ClassNameTests(SynchronousTestCase):
    """The project as it is."""

    def test_unique(self) -> None:
        """No two modules define a class of the same name, so that a name alone says which class is meant."""
        homes: defaultdict[str, list[str]] = defaultdict(list)
        for module in read_tree(ROOT):
            for node in ast.walk(ast.parse(module.text)):
                if isinstance(node, ast.ClassDef):
                    homes[node.name].append(module.name)
        twice = {name: modules for name, modules in homes.items() if len(modules) > 1}
        self.assertEqual(twice, {})
