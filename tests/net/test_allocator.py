"""Tests of the allocator's settings."""

from __future__ import annotations

import ctypes
import platform
import subprocess
import sys
from types import SimpleNamespace

from twisted.trial.unittest import SkipTest, SynchronousTestCase

from logd.net import allocator

#: Makes and frees six buffers of 1 MiB at a time, and prints the page faults of each.
PROGRAM = """
import resource, sys
from logd.net.allocator import keep_buffers
if sys.argv[1] == "keep":
    assert keep_buffers()
faults = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for turn in range(110):
    if turn == 10:
        before = faults()
    buffers = [bytearray(1 << 20) for _ in range(6)]
    buffers.clear()
print((faults() - before) / 600)
"""


class AllocatorTests(SynchronousTestCase):
    """Processes that make and free large buffers."""

    def faults(self, how: str) -> float:
        """Return the page faults of each buffer of a process."""
        done = subprocess.run([sys.executable, "-c", PROGRAM, how], check=True, capture_output=True, text=True)
        return float(done.stdout)

    def test_a_freed_buffers_memory_is_used_again(self) -> None:
        """The kernel has to clear it once, not for each buffer."""
        if platform.libc_ver()[0] != "glibc":
            raise SkipTest("this C library is not glibc")
        self.assertLess(self.faults("keep"), 10)

    def test_other_systems_are_left_alone(self) -> None:
        """So are C libraries without these settings."""
        self.patch(ctypes, "CDLL", lambda name: SimpleNamespace())
        self.assertFalse(allocator.keep_buffers())
        self.patch(allocator, "sys", SimpleNamespace(platform="darwin"))
        self.assertFalse(allocator.keep_buffers())
