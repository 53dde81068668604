"""Tests of the contents of an installation, and of the modules that an import brings in."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from configparser import ConfigParser
from pathlib import Path
from typing import Any

from twisted.application.service import IServiceMaker
from twisted.plugin import getPlugins
from twisted.trial.unittest import SynchronousTestCase, TestCase

import logd
from logd.protocol.optional_packages import EXTRAS

ROOT = Path(__file__).resolve().parent.parent


def python(program: str) -> str:
    """Run a program in a new interpreter on this checkout, and return its output."""
    return subprocess.run(
        [sys.executable, "-c", program],
        check=True,
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    ).stdout.strip()


class PackagesTests(SynchronousTestCase):
    """setup.cfg, and the files that an installation needs."""

    def test_setup_cfg_lists_every_package(self) -> None:
        """A package that is missing there is missing from the wheel; nothing else is listed."""
        config = ConfigParser()
        config.read(ROOT / "setup.cfg")
        listed = set(config["options"]["packages"].split())
        packages = {".".join(path.parent.relative_to(ROOT).parts) for path in (ROOT / "logd").rglob("__init__.py")}
        spark = {
            ".".join(("logd", *path.parent.relative_to(ROOT).parts)) for path in (ROOT / "spark").rglob("__init__.py")
        }
        self.assertEqual(listed, packages | spark | {"twisted.plugins"})

    def test_the_plugin_folders_are_no_packages(self) -> None:
        """An ``__init__.py`` in them would hide Twisted itself."""
        self.assertEqual([str(path) for path in (ROOT / "twisted").rglob("__init__.py")], [])

    def test_the_spark_folder_is_the_package_logd_spark(self) -> None:
        """It is reached by a relative symlink, which works in any place."""
        self.assertEqual(os.readlink(ROOT / "logd" / "spark"), "../spark")

    def test_the_package_is_marked_as_typed(self) -> None:
        """A user's type checker ignores the annotations without py.typed."""
        self.assertTrue((ROOT / "logd" / "py.typed").exists())


class ExtrasTests(SynchronousTestCase):
    """The words of messages and pages about packages that are not installed."""

    def test_messages_name_the_requirements_of_setup_cfg(self) -> None:
        """Otherwise the command that they give installs another version than the extra."""
        config = ConfigParser()
        config.read(ROOT / "setup.cfg")
        extras = config["options.extras_require"]
        for name, requirements in EXTRAS.items():
            listed = [line.replace(" ", "") for line in extras[name].strip().splitlines()]
            self.assertEqual(list(requirements), listed, name)

    def test_nothing_says_to_install_logd_by_its_name(self) -> None:
        """A package of that name in a registry is another project."""
        paths = [ROOT / "README.md"]
        for folder in ("logd", "spark", "demo", "examples", "contrib", "docs"):
            paths += [path for path in (ROOT / folder).rglob("*") if path.suffix in {".py", ".md", ".toml", ".service"}]
        found = [str(path) for path in paths if re.search(r"pip install '?logd\b", path.read_text("utf-8"))]
        self.assertEqual(found, [])


class PluginTests(TestCase):
    """The plugin that makes ``twistd logd`` work."""

    def test_twistd_finds_exactly_one_logd_plugin(self) -> None:
        """It names the module that makes the service."""
        plugins: list[Any] = list(getPlugins(IServiceMaker))
        (plugin,) = [plugin for plugin in plugins if plugin.tapname == "logd"]
        self.assertEqual(plugin.module, "logd.tap")
        (plugin,) = [plugin for plugin in plugins if plugin.tapname == "logd-registry"]
        self.assertEqual(plugin.module, "logd.registry_tap")


class ImportsTests(SynchronousTestCase):
    """The imports of the package's public names, each in an interpreter of its own."""

    def test_the_protocol_loads_no_twisted(self) -> None:
        """Spark's workers use the protocol alone; asyncio is not loaded either."""
        program = "import sys, logd.protocol.message_set\nprint('twisted' in sys.modules, 'asyncio' in sys.modules)"
        self.assertEqual(python(program), "False False")

    def test_public_names_come_from_where_they_live(self) -> None:
        """`from logd import Consumer` gives the class itself, not a wrapper."""
        program = (
            "from logd import Consumer, Message, MessageSet, Producer\n"
            "print(Consumer.__module__.startswith('logd.client'), Message.__module__, MessageSet.__module__, "
            "Producer.__module__.startswith('logd.client'))"
        )
        self.assertEqual(python(program), "True logd.protocol.message logd.protocol.message_set True")

    def test_importing_the_clients_installs_no_reactor(self) -> None:
        """A program can still choose its own."""
        program = "import sys\nfrom logd import Consumer, Producer\nprint('twisted.internet.reactor' in sys.modules)"
        self.assertEqual(python(program), "False")

    def test_the_help_loads_no_command(self) -> None:
        """`logd --help` loads neither Spark nor ZooKeeper's client nor Twisted, and stays quick."""
        program = (
            "import sys\nfrom logd.cli.main import main\nmain(['--help'], standalone_mode=False)\n"
            "print([name for name in ('pyspark', 'pyarrow', 'kazoo', 'twisted', 'rich') if name in sys.modules])"
        )
        self.assertEqual(python(program).splitlines()[-1], "[]")

    def test_an_unknown_public_name_is_an_attribute_error(self) -> None:
        """The names that exist are listed by dir(), as in any module."""
        self.assertTrue(set(logd.__all__) <= set(dir(logd)))
        with self.assertRaisesRegex(AttributeError, "no attribute 'Consummer'"):
            logd.Consummer  # noqa: B018  # that is the point
