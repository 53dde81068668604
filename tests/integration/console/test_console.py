"""The console of a real broker in Chromium: what people see, forms, live updates, keyboard, and accessibility.

``LOGD_SCREENSHOTS=1`` writes the pictures of docs/console.md anew.
"""

from __future__ import annotations

import json
import os
import time
import urllib.error
import urllib.request
from importlib.resources import files
from pathlib import Path

from twisted.trial.unittest import SkipTest, SynchronousTestCase

from logd.testing.processes.broker import BrokerProcess, free_port
from tests.integration.console.browser import Browser, find_browser
from tests.integration.kafka.test_listeners import logd
from tests.integration.peers import PATIENCE

ROOT = Path(__file__).parents[3]
FIGURES = ROOT / "docs" / "figures"


class ConsoleTests(SynchronousTestCase):
    """One broker, and one browser."""

    def setUp(self) -> None:
        """Start the broker."""
        port = free_port()
        self.broker = BrokerProcess(os.path.abspath(self.mktemp()), [f"--http=tcp:{port}:interface=127.0.0.1"]).start()
        self.addCleanup(self.broker.kill)
        self.url = f"http://127.0.0.1:{port}/console"

    def fill(self) -> None:
        """Make topics and a group, and start the browser."""
        if find_browser() is None:
            raise SkipTest("there is no Chromium: apt-get install chromium")
        at, tree = f"--broker={self.broker.address}", f"--zookeeper={self.broker.coordination}"
        logd("topics", "create", "clicks", "--partitions=4", at)
        logd("topics", "create", "web.orders", "--partitions=2", "--set", "retention.ms=3600000", at)
        lines = "".join(json.dumps({"user": n, "page": "/home", "ok": n % 7 > 0}) + "\n" for n in range(5000))
        logd("produce", "clicks", "--audit", at, given=lines)
        described = json.loads(logd("topics", "describe", "clicks", "--json", at).stdout)["partitions"]
        self.filled = max(described, key=lambda each: each["bytes"])["partition"]
        logd("produce", "web.orders", at, given="<script>document.title = 'taken'</script>\n")
        logd("consume", "clicks", "--group=reports", "--from=earliest", "--max=3000", tree)
        self.browser = Browser()
        self.addCleanup(self.browser.close)
        self.browser.size(1200, 900)

    def check_accessible(self, what: str) -> None:
        """Run axe over the page."""
        self.browser.run(_axe_script())
        found = self.browser.run("axe.run().then(r => r.violations.map(v => v.id + ': ' + v.nodes[0].html))")
        self.assertEqual(found, [], what)

    def picture(self, name: str) -> None:
        """Keep what the page looks like for the documents, if that is wanted."""
        if os.environ.get("LOGD_SCREENSHOTS"):
            FIGURES.mkdir(exist_ok=True)
            self.browser.screenshot(FIGURES / f"console-{name}.png")

    def text(self) -> str:
        """Return what can be read."""
        return str(self.browser.run("document.body.innerText"))

    def test_the_console_in_a_browser(self) -> None:
        """The pages one after the other, as a person goes through them."""
        self.fill()
        browser = self.browser
        browser.open(f"{self.url}/topics")
        self.assertIn("clicks", self.text())
        self.check_accessible("topics")
        self.picture("topics")

        # A topic is created by the keyboard alone.
        browser.run("document.querySelector('summary').focus()")
        browser.press("Enter", 13)
        browser.until("document.querySelector('details').open")
        browser.press("Tab", 9)
        browser.type("made.here")
        browser.press("Enter", 13)
        browser.until("location.pathname === '/console/topics/made.here' && document.readyState === 'complete'")
        self.assertIn("Partitions", self.text())

        # A message that is produced shows up without a reload, once.
        browser.open(f"{self.url}/topics/clicks/messages?partition={self.filled}&format=json")
        browser.until("document.querySelectorAll('.message').length > 0")
        self.check_accessible("messages")
        self.picture("messages")
        logd("produce", "clicks", f"--partition={self.filled}", f"--broker={self.broker.address}", given="just now\n")
        browser.until("document.body.innerText.includes('just now')")

        # Messages are shown and never run.
        for partition in (0, 1):
            browser.open(f"{self.url}/topics/web.orders/messages?partition={partition}&from=earliest")
        self.assertNotEqual(browser.run("document.title"), "taken")

        browser.open(f"{self.url}/groups")
        self.assertIn("reports", self.text())
        self.check_accessible("groups")
        self.picture("groups")
        browser.open(f"{self.url}/groups/reports")
        self.assertIn("clicks", self.text())
        self.check_accessible("group")

        # A reset shows first what it would do.
        browser.run("document.querySelector('details').open = true")
        browser.run("document.querySelector('[name=to]').focus()")
        browser.type("earliest")
        browser.press("Enter", 13)
        browser.until("document.body.innerText.includes('Nothing is changed yet')")
        self.check_accessible("reset")
        self.picture("reset")
        browser.run("document.querySelector('form.change button').focus()")
        browser.press("Enter", 13)
        browser.until("location.pathname === '/console/groups/reports' && document.readyState === 'complete'")
        described = logd("groups", "describe", "reports", "--json", f"--zookeeper={self.broker.coordination}").stdout
        positions = [each["position"] for each in json.loads(described)["partitions"]]
        self.assertEqual(positions, [0, 0, 0, 0])

        browser.open(f"{self.url}/audit")
        self.assertIn("produced", self.text())
        self.check_accessible("audit")

        # In the dark, on a telephone: nothing is wider than the page.
        browser.size(400, 800, dark=True)
        for path in ("", "/topics", "/groups/reports", f"/topics/clicks/messages?partition={self.filled}"):
            browser.open(self.url + path)
            self.assertLessEqual(browser.run("document.documentElement.scrollWidth"), 400, path)
        self.check_accessible("dark")
        self.picture("telephone")

        browser.size(1200, 1290)
        browser.open(self.url)
        browser.until("document.querySelectorAll('.u-wrap').length === 5")
        self.assertIn("registered", self.text())
        self.check_accessible("cluster")
        if os.environ.get("LOGD_SCREENSHOTS"):
            self._make_a_curve()
        self.picture("cluster")
        self.assertEqual(browser.complaints, [])

    def _make_a_curve(self) -> None:
        """Produce for some samples, so that the picture's charts show something."""
        for number in range(14):
            lines = "".join(f"line {n}\n" for n in range(2000 + 4000 * (number % 5)))
            logd("produce", "clicks", f"--broker={self.broker.address}", given=lines)
            time.sleep(2.0)

    def test_pages_are_safe_from_other_sites(self) -> None:
        """A name that leads here, a form of another site, and a form without its token are refused."""
        for headers, status in (({"Host": "evil.example"}, 403), ({"Host": "localhost"}, 200)):
            request = urllib.request.Request(f"{self.url}/topics", headers=headers)
            self.assertEqual(_status(request), status, headers)
        body = b"topic=stolen&partitions=1"
        for headers in ({"Origin": "http://evil.example"}, {"Sec-Fetch-Site": "cross-site"}, {}):
            request = urllib.request.Request(f"{self.url}/topics", data=body, headers=headers)
            self.assertEqual(_status(request), 403, headers)
        self.assertNotIn("stolen", logd("topics", "list", f"--broker={self.broker.address}").stdout)


def _status(request: urllib.request.Request) -> int:
    try:
        with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code


def _axe_script() -> str:
    return files("axe_core_python").joinpath("axe.min.js").read_text(encoding="utf-8")
