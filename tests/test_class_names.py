"""Holds that a class name has one meaning in the whole package."""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from tests.layering import read_tree

ROOT = Path(__file__).resolve().parent.parent
#: Names that two modules still give to different things: to be emptied, never to be added to.
STILL_TWICE = {"Loss", "Sync"}


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
        self.assertEqual({name: modules for name, modules in twice.items() if name not in STILL_TWICE}, {})
        self.assertEqual(STILL_TWICE - set(twice), set(), "these are unique by now: take them off the list")
