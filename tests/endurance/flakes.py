"""``python -m tests.endurance.flakes --runs 10``: repeat every test that a busy machine could make fail.

The tests are those of modules that use processes, sockets, threads or the reactor. Every second run has processes
beside it that load the processors and the disk. Outcomes are appended to a file as they come, so an interrupted run
continues where it was. Changed files begin anew: a changed test module for itself, any other file for all modules. The
status is 1 if a module failed.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import re
import subprocess
import sys
import time
from collections.abc import Callable, Generator, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import nullcontext
from pathlib import Path
from typing import Self

from attrs import asdict, define, field, frozen
from twisted.trial.runner import TestLoader

from tests.distribution import single_tests
from tests.endurance.load import Load
from tests.endurance.trial import ROOT, TrialRun, run_trial

#: The folder of the outcomes and of the output of failing runs.
FOLDER = ROOT / ".flakes"
_OUTCOMES = "outcomes.jsonl"
#: Modules whose tests run one by one: as a whole, beside a load, such a module takes as long as all the others.
DIVIDED = ("tests.integration.documents.test_documentation",)
#: Seconds for one module; beside a load, three times as many.
PATIENCE = 1800.0
#: Signs that a test depends on more than its own thread, so that a busy machine can make it fail.
_DISTURBABLE = re.compile(
    r"subprocess|\bimport reactor\b|^import (?:socket|threading|signal)|deferToThread|Process\b|time\.sleep"
    r"|unittest import .*\bTestCase\b",
    re.M,
)
#: Imports from the tests: the package or module, and the names; and imports of whole modules.
_IMPORT = re.compile(r"^\s*from (tests\b[\w.]*) import (\([^)]*\)|.*)", re.M)
_PLAIN_IMPORT = re.compile(r"^\s*import (tests\b[\w.]*)", re.M)
#: The file of a test module, and an import of one or from one.
_TEST_FILE = re.compile(r"^tests/(?:.*/)?test_\w+\.py$")
_TEST_IMPORT = re.compile(rb"^\s*(?:from|import) (tests\b[\w.]*?)(?: import |\.)(test_\w+)", re.M)


def disturbable_modules(root: Path = ROOT) -> list[str]:
    """Return the dotted names of the test modules to repeat, sorted.

    A module is disturbable too if it imports from a disturbable one, such as a rig with sockets.
    """
    texts = {
        ".".join(path.relative_to(root).with_suffix("").parts): path.read_text(encoding="utf-8")
        for path in (root / "tests").rglob("*.py")
        if path.name != "__init__.py"
    }
    imported = {module: texts.keys() & _imported(text) for module, text in texts.items()}
    found = {module for module, text in texts.items() if _DISTURBABLE.search(text)}
    while more := {module for module, those in imported.items() if those & found} - found:
        found |= more
    return sorted(
        module
        for module in texts
        if module.rpartition(".")[2].startswith("test_")
        and (module in found or module.startswith("tests.integration."))
    )


def _imported(text: str) -> set[str]:
    """Return the dotted names that may be modules of the tests among those that a module imports."""
    names = set(_PLAIN_IMPORT.findall(text))
    for package, those in _IMPORT.findall(text):
        names |= {package, *(f"{package}.{name}" for name in re.findall(r"\w+", those))}
    return names


def repeated_tests() -> list[str]:
    """Return the dotted names of what is repeated: modules, and the tests of those that are divided."""
    names = []
    for module in disturbable_modules():
        if module in DIVIDED:
            names += sorted(test.id() for test in single_tests(TestLoader().loadByName(module)))
        else:
            names.append(module)
    return names


@frozen
class TreeState:
    """Digests of the files: an outcome counts while they are the same."""

    #: Of all files that may bear on each module.
    common: str
    #: Of each test module that no other file imports, by its dotted name.
    own: Mapping[str, str]

    @classmethod
    def read(cls, root: Path = ROOT) -> Self:
        """Read the files that git knows or would add."""
        listing = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
        names = subprocess.run(listing, cwd=root, capture_output=True, check=True, text=True).stdout.split("\0")
        files = {name: (root / name).read_bytes() for name in sorted({*names}) if (root / name).is_file()}
        imported = {b".".join(found).decode() for content in files.values() for found in _TEST_IMPORT.findall(content)}
        modules = {name.removesuffix(".py").replace("/", "."): name for name in files if _TEST_FILE.search(name)}
        own = {module: _digest(files.pop(name)) for module, name in modules.items() if module not in imported}
        return cls(_digest(*(part for name, content in files.items() for part in (name.encode(), content))), own)

    def of(self, name: str) -> str:
        """Return the state of a module, or of a test in one, by its dotted name."""
        own = [digest for module, digest in self.own.items() if f"{name}.".startswith(f"{module}.")]
        return "-".join([self.common, *own])


def _digest(*parts: bytes) -> str:
    digest = hashlib.sha256()
    for part in parts:
        digest.update(b"%d " % len(part) + part)
    return digest.hexdigest()[:16]


@define(frozen=True)
class Outcome:
    """The record of one run of one module."""

    state: str
    run: int
    module: str
    loaded: bool
    passed: bool
    seconds: float
    summary: str
    processor_seconds: float = 0.0


@define
class Outcomes:
    """The outcomes so far, in a file of JSON lines. ``state(module)`` tells for what files an outcome counts."""

    folder: Path
    state: Callable[[str], str]
    found: list[Outcome] = field(factory=list)
    #: The seconds that each module took last, in any state.
    _seconds: dict[str, float] = field(factory=dict)

    def load(self) -> None:
        """Read the outcomes of earlier runs of the same state; a line that was cut short is left out."""
        try:
            lines = (self.folder / _OUTCOMES).read_text(encoding="utf-8").splitlines()
        except FileNotFoundError:
            return
        for line in lines:
            try:
                outcome = Outcome(**json.loads(line))
            except (ValueError, TypeError):
                continue
            self._seconds[outcome.module] = outcome.seconds
            if outcome.state == self.state(outcome.module):
                self.found.append(outcome)

    def add(self, run: int, loaded: bool, done: TrialRun) -> None:
        """Append an outcome; keep the output of a run that failed."""
        times = round(done.seconds, 1), round(done.processor_seconds, 1)
        state = self.state(done.module)
        outcome = Outcome(state, run, done.module, loaded, done.passed, times[0], done.summary, times[1])
        self.found.append(outcome)
        self._seconds[outcome.module] = outcome.seconds
        self.folder.mkdir(exist_ok=True)
        with (self.folder / _OUTCOMES).open("a", encoding="utf-8") as file:
            file.write(json.dumps(asdict(outcome)) + "\n")
        if not done.passed:
            (self.folder / f"{done.module}-{run}.log").write_text(done.output, encoding="utf-8")

    def dearest_first(self, modules: Iterable[str]) -> list[str]:
        """Return modules with those first that took longest when they ran last: the end waits for none of them."""
        return sorted(modules, key=lambda module: -self._seconds.get(module, 0.0))

    def missing(self, run: int, modules: Iterable[str]) -> list[str]:
        """Return the modules without an outcome in a run."""
        done = {outcome.module for outcome in self.found if outcome.run == run}
        return [module for module in modules if module not in done]


def main(arguments: list[str]) -> int:
    """Repeat the modules; return the exit status, 1 if one failed."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.endurance.flakes",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--runs", type=int, default=10, help="how often each module runs (10): the last run")
    parser.add_argument("--from-run", type=int, default=1, help="the first run, if another machine has those before it")
    parser.add_argument("--jobs", type=int, default=2, help="modules that run at a time (2)")
    parser.add_argument(
        "--no-load", action="store_true", help="no processes that load the machine beside every second run"
    )
    parser.add_argument(
        "--costs", action="store_true", help="print what the modules cost in the runs so far, and run nothing"
    )
    parser.add_argument("--list", action="store_true", help="print the modules and run nothing")
    parser.add_argument("modules", nargs="*", help="these alone, as dotted names")
    options = parser.parse_args(arguments)
    if not 1 <= options.from_run <= options.runs:
        parser.error(f"--from-run {options.from_run} is not among the runs 1 to {options.runs}: --runs is the last run")
    modules = options.modules or repeated_tests()
    if options.list:
        print("\n".join(modules))
        return 0
    outcomes = Outcomes(FOLDER, TreeState.read().of)
    outcomes.load()
    if options.costs:
        print("\n".join(costs(outcomes, modules)))
        return 0
    runs = range(options.from_run, options.runs + 1)
    total, begin, ran = len(runs) * len(modules), time.monotonic(), 0
    left = sum(len(outcomes.missing(run, modules)) for run in runs)
    print(f"{len(modules)} modules, {len(runs)} runs of each; {total - left} of {total} are done", flush=True)
    for run in runs:
        loaded = run % 2 == 0 and not options.no_load
        missing = outcomes.missing(run, modules)
        if not missing:
            continue
        patience = PATIENCE * (3 if loaded else 1)
        with Load() if loaded else nullcontext(), ThreadPoolExecutor(options.jobs) as pool:
            for done in in_any_order(pool, outcomes.dearest_first(missing), patience):
                outcomes.add(run, loaded, done)
                ran += 1
                rest = (time.monotonic() - begin) / ran * (left - ran) / 60
                beside = " beside a load" if loaded else ""
                print(
                    f"run {run}{beside}: {done.module}: {done.summary} in {done.seconds:.0f} s; {rest:.0f} min left",
                    flush=True,
                )
    return report(outcomes, modules, options.runs)


def in_any_order(pool: ThreadPoolExecutor, modules: Iterable[str], patience: float) -> Generator[TrialRun]:
    """Yield the run of each module as it ends, so that one that is noted is not repeated after an interruption."""
    try:
        yield from (each.result() for each in as_completed([pool.submit(run_trial, m, patience) for m in modules]))
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def costs(outcomes: Outcomes, modules: Iterable[str]) -> list[str]:
    """Return a line with the mean times of each module that has run, the dearest first, and one with their sum."""
    means: list[tuple[float, float, str]] = []
    for module in modules:
        these = [outcome for outcome in outcomes.found if outcome.module == module and outcome.processor_seconds]
        if these:
            processor = sum(each.processor_seconds for each in these) / len(these)
            means.append((processor, sum(each.seconds for each in these) / len(these), module))
    means.sort(reverse=True)
    total = f"{sum(each[0] for each in means):.0f} s of processors in a run of all {len(means)} modules"
    return [*(f"{processor:7.1f} s of processors in {taken:7.1f} s: {name}" for processor, taken, name in means), total]


def report(outcomes: Outcomes, modules: Iterable[str], runs: int) -> int:
    """Print the modules that failed, and how often; return 1 if there are any, else 0."""
    wanted = set(modules)
    counted = [outcome for outcome in outcomes.found if outcome.module in wanted and outcome.run <= runs]
    failed = [outcome for outcome in counted if not outcome.passed]
    for module in sorted({outcome.module for outcome in failed}):
        these = sorted(outcome.run for outcome in failed if outcome.module == module)
        loaded = sum(outcome.loaded for outcome in failed if outcome.module == module)
        print(f"{module} failed in {len(these)} of {runs} runs ({loaded} beside a load): see {FOLDER}/{module}-*.log")
    print(costs(outcomes, wanted)[-1])
    print(f"{len(counted) - len(failed)} passed, {len(failed)} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
