"""The documents as a site: built by Sphinx as ``make site`` does it."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

from twisted.trial.unittest import SkipTest, SynchronousTestCase

ROOT = Path(__file__).resolve().parents[3]
#: The longest time of one build, in seconds.
PATIENCE = 300.0


class SiteTests(SynchronousTestCase):
    """One build of the whole site."""

    def test_the_site_is_built_without_warnings(self) -> None:
        """Every link leads somewhere, every page is in the contents, and the API reference has the docstrings."""
        if importlib.util.find_spec("sphinx") is None:
            raise SkipTest("the site is built by Sphinx, which is not installed: pip install '.[docs]'")
        site = Path(os.path.abspath(self.mktemp()))
        done = subprocess.run(
            [sys.executable, "-m", "sphinx", "--quiet", "--fail-on-warning", "--keep-going", "docs", str(site)],
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
        )
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        reference = (site / "api.html").read_text(encoding="utf-8")
        for name in ("Producer.send", "Consumer.create_message_streams", "BrokerService", "PartitionLost"):
            self.assertTrue(f'.{name}"' in reference, name)
        front = (site / "index.html").read_text(encoding="utf-8")
        missing = [page for page in (ROOT / "docs").glob("*.md") if f"{page.stem}.html" not in front]
        self.assertEqual(missing, [])
