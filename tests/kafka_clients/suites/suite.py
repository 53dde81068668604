"""A client's own integration tests: where they are from, how they are run, and which of them cannot pass here."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
import xml.etree.ElementTree as ElementTree
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from attrs import field, frozen

from tests.kafka_clients.having import CannotBeHad

#: Seconds that one test may take.
PATIENCE = 90
PASSED, FAILED, SKIPPED = "passed", "failed", "skipped"


@frozen
class Suite:
    """The tests of one client, from its source distribution on PyPI or from a clone of its repository."""

    #: The name on PyPI, and the version whose tests the expectations are about.
    name: str
    version: str
    #: The folder of the tests in the distribution or the clone.
    tests: str
    #: Reasons of the tests that fail here, by their names without the file; ``name[*]`` names all parameters of one.
    expected: Mapping[str, str]
    #: The packages that the tests need besides the client.
    needs: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(factory=dict)
    #: Tests that change the whole cluster: each has a broker of its own.
    alone: tuple[str, ...] = ()
    #: Modules that the distribution leaves out, by path, and what the tests need of them.
    missing: Mapping[str, str] = field(factory=dict)
    #: Modules that one of ours replaces, by path: the path of ours.
    instead: Mapping[str, Path] = field(factory=dict)
    #: False for a client whose distribution has no tests: a clone of its repository, at this version, is needed.
    distributed: bool = True
    #: The modules of the folder that are run; empty for all.
    modules: tuple[str, ...] = ()
    #: Reasons of the tests that fail here or pass, as it happens.
    unsteady: Mapping[str, str] = field(factory=dict)
    #: Options for pytest.
    options: tuple[str, ...] = ()
    #: Settings of the broker.
    broker: Mapping[str, Any] = field(factory=dict)

    def reason(self, test: str) -> str | None:
        """Return the reason why a test may fail, or None."""
        if test in self.unsteady:
            return self.unsteady[test]
        return self.expected.get(test, self.expected.get(f"{test.partition('[')[0]}[*]"))


def fetch(suite: Suite, folder: Path, clone: Path | None) -> tuple[Path, str]:
    """Put the tests and an environment with the client in ``folder``; return the folder of the tests and its Python.

    Raises CannotBeHad.
    """
    folder.mkdir(parents=True, exist_ok=True)
    python = str(folder / "venv" / "bin" / "python")
    if not os.path.exists(python):
        _run(sys.executable, "-m", "venv", "venv", folder=folder)
    source = _distributed(suite, folder, python) if suite.distributed else _cloned(suite, folder, python, clone)
    for path, text in suite.missing.items():
        if not (source / path).exists():
            (source / path).write_text(text, encoding="utf-8")
    for path, ours in suite.instead.items():
        shutil.copy(ours, source / path)
    return source, python


def _distributed(suite: Suite, folder: Path, python: str) -> Path:
    """Return the source distribution, from which the client is installed too."""
    there = sorted(folder.glob("*/PKG-INFO"))
    if not there:
        wanted = f"{suite.name}=={suite.version}"
        _run(python, "-m", "pip", "download", "-q", "--no-deps", "--no-binary", suite.name, wanted, folder=folder)
        (distribution,) = folder.glob("*.tar.gz")
        with tarfile.open(distribution) as archive:
            archive.extractall(folder, filter="data")
        there = sorted(folder.glob("*/PKG-INFO"))
        _run(python, "-m", "pip", "install", "-q", str(there[0].parent), *suite.needs, folder=folder)
    source = there[0].parent
    if not any((source / suite.tests).glob("test_*.py")):
        raise CannotBeHad(f"the distribution of {suite.name} {suite.version} has no tests in {suite.tests}")
    return source


def _cloned(suite: Suite, folder: Path, python: str, clone: Path | None) -> Path:
    """Return a copy of the tests alone, so that they use the client that is installed and not the one beside them."""
    if clone is None:
        raise CannotBeHad(f"its distribution has no tests: name a clone of its repository by --{suite.name}")
    if not any((clone / suite.tests).glob("test_*.py")):
        raise CannotBeHad(f"{clone} has no tests in {suite.tests}")
    _run(python, "-m", "pip", "install", "-q", f"{suite.name}=={suite.version}", *suite.needs, folder=folder)
    source = folder / "copy"
    shutil.rmtree(source, ignore_errors=True)
    shutil.copytree(clone / suite.tests, source / suite.tests)
    shutil.copy(clone / "pyproject.toml", source)
    return source


def run(suite: Suite, source: Path, python: str, bootstrap: str, *words: str) -> dict[str, tuple[str, str]]:
    """Run tests against a broker; return the outcome of each by its name, and the first line of a failure.

    Raises RuntimeError if the tests do not run at all.
    """
    report = source.parent / "report.xml"
    report.unlink(missing_ok=True)
    options = (*suite.options, "-q", "-p", "no:cacheprovider", "--tb=short")
    limits = (f"--timeout={PATIENCE}", "--timeout-method=signal")
    done = subprocess.run(
        [python, "-m", "pytest", *options, *limits, f"--junitxml={report}", *words],
        cwd=source,
        env={**os.environ, **suite.environment, "KAFKA_URI": f"kafka://{bootstrap}", "KAFKA_ROOT": str(source)},
        capture_output=True,
        text=True,
        check=False,
    )
    if not report.exists():
        raise RuntimeError(f"pytest ended with {done.returncode}: {done.stdout[-2000:]}{done.stderr[-2000:]}")
    outcomes: dict[str, tuple[str, str]] = {}
    for case in ElementTree.parse(report).getroot().iter("testcase"):
        failure = next((each for each in case if each.tag in ("failure", "error")), None)
        skipped = next((each for each in case if each.tag == "skipped"), None)
        found = failure if failure is not None else skipped
        outcome = FAILED if failure is not None else SKIPPED if skipped is not None else PASSED
        text = "" if found is None else found.get("message", "").partition("\n")[0]
        if outcomes.get(case.get("name", ""), ("", ""))[0] != FAILED:
            outcomes[case.get("name", "")] = outcome, text
    return outcomes


def _run(*command: str, folder: Path) -> None:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=900, check=False)
    if done.returncode:
        raise CannotBeHad(f"{' '.join(command[:4])} failed: {(done.stderr or done.stdout).strip()[-300:]}")
