"""Drives Chromium without a window, by its DevTools protocol over two pipes: no port, and no package."""

from __future__ import annotations

import base64
import fcntl
import json
import os
import select
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any, Self

#: Seconds for each step.
PATIENCE = 120.0
_PROGRAMS = ("chromium", "chromium-browser", "google-chrome")


def find_browser() -> str | None:
    """Return the path of a browser, None where there is none."""
    return next(filter(None, map(shutil.which, _PROGRAMS)), None)


class Browser:
    """One process with one page."""

    def __init__(self) -> None:
        self._profile = tempfile.mkdtemp(prefix="logd-browser-")
        to_read, self._to = os.pipe()
        self._from, to_write = os.pipe()
        self._buffer = b""
        self._number = 0
        #: Events of the page that nobody has asked for yet, and what its console has said.
        self.complaints: list[str] = []
        program = find_browser()
        assert program is not None

        def place() -> None:
            """Have the pipes at the numbers that the browser expects."""
            # Above all fixed numbers first: a pipe may have been given the number that another one is to have.
            high = [fcntl.fcntl(each, fcntl.F_DUPFD_CLOEXEC, 20) for each in (to_read, to_write)]
            os.dup2(high[0], 3)
            os.dup2(high[1], 4)

        self._process = subprocess.Popen(
            [
                *(program, "--headless", "--no-sandbox", "--disable-gpu", "--remote-debugging-pipe"),
                *("--hide-scrollbars", "--no-first-run", f"--user-data-dir={self._profile}", "--disable-dev-shm-usage"),
                *("--disable-background-networking", "--disable-component-update", "about:blank"),
            ],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            preexec_fn=place,  # the pipes have fixed numbers
            close_fds=False,
        )
        os.close(to_read)
        os.close(to_write)
        (target,) = [each for each in self._browser("Target.getTargets")["targetInfos"] if each["type"] == "page"]
        self._session = self._browser("Target.attachToTarget", targetId=target["targetId"], flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the browser, and remove what it has stored."""
        self._process.kill()
        self._process.wait()
        os.close(self._to)
        os.close(self._from)
        shutil.rmtree(self._profile, ignore_errors=True)

    def call(self, method: str, **parameters: Any) -> Any:
        """Call a method on the page; return its result. Raises AssertionError for an error."""
        return self._call(method, parameters, self._session)

    def size(self, width: int, height: int, dark: bool = False) -> None:
        """Give the page a size, and the colours of the day or of the night."""
        self.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600
        )
        self.call(
            "Emulation.setEmulatedMedia",
            features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}],
        )

    def open(self, url: str) -> None:
        """Load a page, and wait until it is loaded."""
        self.call("Page.navigate", url=url)
        self.until(f"document.readyState === 'complete' && location.href === {json.dumps(url)}")

    def run(self, script: str) -> Any:
        """Return the value of an expression in the page; a promise is awaited."""
        answer = self.call("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in answer:
            raise AssertionError(f"{script[:200]}: {answer['exceptionDetails']}")
        return answer["result"].get("value")

    def until(self, script: str) -> None:
        """Wait until an expression is true."""
        deadline = time.monotonic() + PATIENCE
        while True:
            try:
                if self.run(f"Boolean({script})"):
                    return
            except AssertionError:  # between two pages there is none
                pass
            if time.monotonic() > deadline:
                raise AssertionError(f"never true: {script}")
            time.sleep(0.02)

    def type(self, text: str) -> None:
        """Type a text where the focus is."""
        self.call("Input.insertText", text=text)

    def press(self, key: str, code: int) -> None:
        """Press a key, such as Tab (9) or Enter (13)."""
        more = {"text": "\r"} if key == "Enter" else {}
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode=code, **more)

    def screenshot(self, path: Path) -> None:
        """Write what the page looks like to a PNG file."""
        path.write_bytes(base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"]))

    def _browser(self, method: str, **parameters: Any) -> Any:
        return self._call(method, parameters, None)

    def _call(self, method: str, parameters: dict[str, Any], session: str | None) -> Any:
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": parameters}
        if session is not None:
            message["sessionId"] = session
        os.write(self._to, json.dumps(message).encode() + b"\0")
        deadline = time.monotonic() + PATIENCE
        while True:
            answer = self._next(deadline, method)
            if answer.get("id") == self._number:
                if "error" in answer:
                    raise AssertionError(f"{method}: {answer['error']}")
                return answer["result"]
            self._note(answer)

    def _note(self, event: dict[str, Any]) -> None:
        parameters = event.get("params", {})
        if event.get("method") == "Log.entryAdded" and parameters["entry"]["level"] in ("error", "warning"):
            self.complaints.append(str(parameters["entry"]["text"]))
        elif event.get("method") == "Runtime.exceptionThrown":
            self.complaints.append(str(parameters["exceptionDetails"]))
        elif event.get("method") == "Network.requestWillBeSent":
            url = parameters["request"]["url"]
            if not url.startswith(("http://127.0.0.1:", "data:", "about:")):
                self.complaints.append(f"a request to {url}")

    def _next(self, deadline: float, method: str) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            if not select.select([self._from], [], [], max(deadline - time.monotonic(), 0.0))[0]:
                raise AssertionError(f"the browser does not answer {method}")
            data = os.read(self._from, 1 << 20)
            if not data:
                raise AssertionError("the browser has ended")
            self._buffer += data
        line, _, self._buffer = self._buffer.partition(b"\0")
        found: dict[str, Any] = json.loads(line)
        return found
