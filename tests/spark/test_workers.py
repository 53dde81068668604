"""Tests of the imports of a Spark worker."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

_ROOT = Path(__file__).resolve().parents[2]
#: Compiled packages, which a worker needs for some messages only.
COMPILED = ("cramjam", "crcmod", "fastavro")
_PROGRAM = """
import sys
import logd.spark.{name}
bad = sorted(name for name in sys.modules if f'{{name}}.'.startswith(({forbidden})))
sys.exit(', '.join(bad[:5]))
"""


class ImportTests(SynchronousTestCase):
    """Modules that workers load without Twisted, and those that need no Spark without pyspark."""

    def load(self, name: str, *forbidden: str) -> str:
        """Import a module in a process of its own; return the forbidden modules that it brought."""
        program = _PROGRAM.format(name=name, forbidden="".join(f"'{each}.', " for each in forbidden))
        done = subprocess.run([sys.executable, "-c", program], cwd=_ROOT, capture_output=True, text=True, check=False)
        return done.stderr.strip()

    def test_tasks_load_neither_twisted_nor_pyspark(self) -> None:
        """A cluster's workers need only logd itself for reading, planning and producing."""
        for name in ("worker.tasks", "blocking.producing", "worker.incoming", "blocking.range_planning"):
            self.assertEqual(self.load(name, "twisted", "zope.interface", "pyspark", *COMPILED), "")

    def test_the_data_source_loads_no_twisted(self) -> None:
        """The process belongs to Spark, and a reactor has no place in it."""
        try:
            import pyspark
        except ImportError:
            self.skipTest("pyspark is not installed")
        self.assertTrue(pyspark.__version__)
        self.assertEqual(self.load("driver.source", "twisted", *COMPILED), "")
