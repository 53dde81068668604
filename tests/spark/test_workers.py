"""Tests of what a Spark worker has to load."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

_ROOT = Path(__file__).resolve().parents[2]
#: Packages that no Python alone can stand in for, which a worker needs for some messages only.
COMPILED = ("cramjam", "crcmod", "fastavro")
_PROGRAM = """
import sys
import logd.spark.{name}
bad = sorted(name for name in sys.modules if f'{{name}}.'.startswith(({forbidden})))
sys.exit(', '.join(bad[:5]))
"""


class ImportTests(SynchronousTestCase):
    """Workers load no Twisted, and those parts that need no Spark no pyspark."""

    def load(self, name: str, *forbidden: str) -> str:
        """Import one module in a process of its own; return which forbidden modules that brought."""
        program = _PROGRAM.format(name=name, forbidden="".join(f"'{each}.', " for each in forbidden))
        done = subprocess.run([sys.executable, "-c", program], cwd=_ROOT, capture_output=True, text=True, check=False)
        return done.stderr.strip()

    def test_tasks(self) -> None:
        """Reading, planning and producing need neither."""
        for name in ("worker.tasks", "blocking.producing", "worker.incoming", "blocking.range_planning"):
            self.assertEqual(self.load(name, "twisted", "zope.interface", "pyspark", *COMPILED), "")

    def test_source(self) -> None:
        """The data source needs pyspark and no Twisted."""
        try:
            import pyspark
        except ImportError:
            self.skipTest("pyspark is not installed")
        self.assertTrue(pyspark.__version__)
        self.assertEqual(self.load("driver.source", "twisted", *COMPILED), "")
