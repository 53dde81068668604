"""Finds the programs of other systems: on the PATH, or in a folder with the layout that ``fetch`` makes."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from glob import glob

from attrs import frozen

#: The environment variable that names the folder.
VARIABLE = "LOGD_BENCH_SYSTEMS"
_PROGRAM_FOLDERS = ("debian/usr/bin", "debian/usr/sbin", "tansu/bin", "bin")


@frozen
class SystemPlaces:
    """A folder with ``kafka/libs``, ``activemq/libs``, ``debian/usr``, ``tansu/bin``, ``python``; any may be absent."""

    folder: str = ""

    def program(self, name: str) -> str | None:
        """Return the path of a program, in the folder first, then on the PATH; None if there is none."""
        for each in _PROGRAM_FOLDERS:
            path = os.path.join(self.folder, each, name)
            if self.folder and os.access(path, os.X_OK):
                return path
        return shutil.which(name)

    def find(self, pattern: str) -> str | None:
        """Return the first path in the folder that fits a pattern such as ``kafka*/libs``; None if there is none."""
        found = sorted(glob(os.path.join(self.folder, pattern))) if self.folder else []
        return found[0] if found else None

    def environment(self) -> Mapping[str, str]:
        """Return the environment variables for programs of the folder: the path of the libraries fetched with them."""
        libraries = self.find("debian/usr/lib/*-linux-gnu")
        return {} if libraries is None else {"LD_LIBRARY_PATH": libraries}

    def python_folder(self) -> str | None:
        """Return the folder of the Python packages that were fetched; None if there is none."""
        return self.find("python")

    def python_package(self, name: str) -> bool:
        """Return whether a Python package was fetched."""
        return self.find(f"python/{name}") is not None or self.find(f"python/{name}.py") is not None
