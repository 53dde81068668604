"""Tests of what an installation contains and of what an import brings in."""

from __future__ import annotations

import os
import subprocess
import sys
from configparser import ConfigParser
from pathlib import Path
from typing import Any

from twisted.application.service import IServiceMaker
from twisted.plugin import getPlugins
from twisted.trial.unittest import SynchronousTestCase, TestCase

import logd

ROOT = Path(__file__).resolve().parent.parent


def python(program: str) -> str:
    """Run a program in a new interpreter on this checkout and return what it printed."""
    return subprocess.run(
        [sys.executable, "-c", program],
        check=True,
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    ).stdout.strip()


class PackagesTests(SynchronousTestCase):
    """setup.cfg."""

    def test_packages(self) -> None:
        """Every package of the tree is in the list, and nothing else."""
        config = ConfigParser()
        config.read(ROOT / "setup.cfg")
        listed = set(config["options"]["packages"].split())
        packages = {".".join(path.parent.relative_to(ROOT).parts) for path in (ROOT / "logd").rglob("__init__.py")}
        spark = {
            ".".join(("logd", *path.parent.relative_to(ROOT).parts)) for path in (ROOT / "spark").rglob("__init__.py")
        }
        self.assertEqual(listed, packages | spark | {"twisted.plugins"})

    def test_twisted_is_not_ours(self) -> None:
        """The plugin's folders are no packages: with an ``__init__.py`` they would hide Twisted itself."""
        self.assertEqual([str(path) for path in (ROOT / "twisted").rglob("__init__.py")], [])

    def test_spark(self) -> None:
        """The spark folder is the package logd.spark, seen through a symlink that works in any place."""
        self.assertEqual(os.readlink(ROOT / "logd" / "spark"), "../spark")

    def test_typed(self) -> None:
        """The marker that makes the types count for users is there."""
        self.assertTrue((ROOT / "logd" / "py.typed").exists())


class PluginTests(TestCase):
    """twistd logd."""

    def test_plugin(self) -> None:
        """twistd finds exactly one broker, and its options lead to the module that makes the service."""
        plugins: list[Any] = list(getPlugins(IServiceMaker))
        (plugin,) = [plugin for plugin in plugins if plugin.tapname == "logd"]
        self.assertEqual(plugin.module, "logd.tap")


class ImportsTests(SynchronousTestCase):
    """The package's face."""

    def test_protocol_without_twisted(self) -> None:
        """A program that needs the protocol alone does not load Twisted."""
        program = "import sys, logd.protocol.message_set\nprint('twisted' in sys.modules, 'asyncio' in sys.modules)"
        self.assertEqual(python(program), "False False")

    def test_lazy_names(self) -> None:
        """The names that the package offers are those of where they live."""
        program = (
            "from logd import Consumer, Message, MessageSet, Producer\n"
            "print(Consumer.__module__.startswith('logd.client'), Message.__module__, MessageSet.__module__, "
            "Producer.__module__.startswith('logd.client'))"
        )
        self.assertEqual(python(program), "True logd.protocol.message logd.protocol.message_set True")

    def test_lazy_reactor(self) -> None:
        """The clients can be imported before a program has chosen its reactor."""
        program = "import sys\nfrom logd import Consumer, Producer\nprint('twisted.internet.reactor' in sys.modules)"
        self.assertEqual(python(program), "False")

    def test_command_line(self) -> None:
        """The command line's help loads no command, and so neither Spark nor ZooKeeper's client nor Twisted."""
        program = (
            "import sys\nfrom logd.cli.main import main\nmain(['--help'], standalone_mode=False)\n"
            "print([name for name in ('pyspark', 'pyarrow', 'kazoo', 'twisted', 'rich') if name in sys.modules])"
        )
        self.assertEqual(python(program).splitlines()[-1], "[]")

    def test_names(self) -> None:
        """What is offered is listed, and another name is an AttributeError as everywhere."""
        self.assertTrue(set(logd.__all__) <= set(dir(logd)))
        with self.assertRaisesRegex(AttributeError, "no attribute 'Consummer'"):
            logd.Consummer  # noqa: B018  # that is the point
