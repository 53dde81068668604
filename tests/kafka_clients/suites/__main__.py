"""``make client-suites``: the integration tests of Kafka's clients, from where they are distributed, against logd.

A test that fails is named in ``expectations.py`` with the reason, or this fails. So it does for a test that is named
there and passes, unless it is named as one that does both.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from logd.testing import kafka
from tests.kafka_clients.having import CannotBeHad
from tests.kafka_clients.suites.expectations import SUITES
from tests.kafka_clients.suites.suite import FAILED, PASSED, SKIPPED, Suite, fetch, run

_Outcomes = dict[str, tuple[str, str]]


def try_suite(suite: Suite, folder: Path, clone: Path | None, words: list[str]) -> _Outcomes:
    """Run a suite, on one broker for most tests; return the outcomes by test. Raises CannotBeHad."""
    source, python = fetch(suite, folder, clone)
    tests = [f"{suite.tests}/{each}" for each in suite.modules] or [suite.tests]
    rest = " and ".join(f"not {each}" for each in suite.alone)
    outcomes: _Outcomes = {}
    for chosen in (words,) if words else (["-k", rest] if rest else [], *(["-k", each] for each in suite.alone)):
        with kafka(process=True, **suite.broker) as broker:
            outcomes |= run(suite, source, python, broker.bootstrap_servers, *tests, *chosen)
    return outcomes


def wrong(suite: Suite, outcomes: _Outcomes, whole: bool) -> list[str]:
    """Return a line for each test whose outcome was not expected, and for each expectation about no test."""
    lines = []
    for test, (outcome, text) in sorted(outcomes.items()):
        reason = suite.reason(test)
        if outcome == FAILED and reason is None:
            lines.append(f"FAILED: {test}: {text}")
        elif outcome != FAILED and reason is not None and test not in suite.unsteady:
            lines.append(f"{outcome.upper()}, though it should fail: {test}: {reason}")
    met = {name for test in outcomes for name in (test, f"{test.partition('[')[0]}[*]")}
    if whole:
        lines += [f"NO SUCH TEST: {name}" for name in (*suite.expected, *suite.unsteady) if name not in met]
    return lines


def main() -> int:
    """Run them; return 1 if an outcome was not expected."""
    parser = argparse.ArgumentParser(prog="python -m tests.kafka_clients.suites", description=__doc__)
    parser.add_argument("--folder", type=Path, required=True, help="where the suites are put, outside the repository")
    parser.add_argument("--only", action="append", help="the name of a client; repeatable")
    for suite in SUITES:
        if not suite.distributed:
            about = f"a clone of its repository at {suite.version}, whose distribution has no tests"
            parser.add_argument(f"--{suite.name}", type=Path, metavar="FOLDER", help=about)
    parser.add_argument("words", nargs="*", help="words for pytest, such as -- -k test_group")
    options = parser.parse_args()
    failed = False
    for suite in SUITES:
        if options.only and suite.name not in options.only:
            continue
        name = f"{suite.name} {suite.version}"
        try:
            outcomes = try_suite(
                suite, options.folder.resolve() / suite.name, getattr(options, suite.name, None), options.words
            )
        except CannotBeHad as reason:
            print(f"{name}: cannot be had: {reason}")
            continue
        for test, (outcome, text) in sorted(outcomes.items()):
            reason_of_failure = suite.reason(test) if outcome == FAILED else text
            print(f"{name} | {test} | {outcome}" + (f" | {reason_of_failure or text}" if outcome != PASSED else ""))
        lines = wrong(suite, outcomes, not options.words)
        counts = [sum(each == outcome for each, _ in outcomes.values()) for outcome in (PASSED, FAILED, SKIPPED)]
        print(f"{name}: {counts[0]} passed, {counts[1]} failed, {counts[2]} skipped; {len(lines)} not as expected")
        print("".join(f"  {line}\n" for line in lines), end="", flush=True)
        failed = failed or bool(lines)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
