"""The file system in memory, under the name that tests of the log know it by."""

from __future__ import annotations

from logd.testing.memory.files import MemoryFile, MemoryFiles, PowerLoss

__all__ = ["MemoryFile", "MemoryFiles", "PowerLoss"]
