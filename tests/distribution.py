"""``python -m tests.distribution --jobs 6``: run the suite by trial in several processes, the longest modules first.

``trial -j`` hands out single tests in the order of their names: the tests of a module are spread over all processes, so
that each process starts the servers that these tests share, and a Spark session takes six seconds of a processor. And
a long module among the last ones keeps one process busy while the others have nothing left. Here a process takes a
whole module, or all tests of the shared Spark session, and the modules in ``LONGEST`` come first. Output, files and
status are trial's own.
"""

from __future__ import annotations

import argparse
import sys
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from attrs import define, field
from twisted.internet.task import deferLater
from twisted.trial._dist.disttrial import DistTrialRunner
from twisted.trial.reporter import TreeReporter
from twisted.trial.runner import TestLoader

#: The modules, or the base classes of the tests of several modules, that take longest; the longest first.
LONGEST = (
    "tests.integration.documents.test_documentation",
    "tests.integration.spark.rig.SparkTestCase",
    "tests.simulation.test_simulation",
    "tests.integration.spark.test_import",
    "tests.integration.chaos.test_chaos",
    "tests.integration.spark.test_import_command",
    "tests.integration.broker.test_brokers",
    "tests.simulation.replication.test_replication",
    "tests.integration.broker.test_lost_segments",
    "tests.integration.clients.test_broker_outages",
    "tests.integration.broker.test_lifecycle",
    "tests.integration.coordination.test_kazoo_suite",
    "tests.integration.clients.test_clients",
    "tests.simulation.mirroring.test_mirroring",
    "tests.integration.broker.test_disks",
)


def single_tests(suite: Any) -> Iterator[Any]:
    """Yield the tests of a suite of suites, and what stands for a module that cannot be imported."""
    try:
        parts = iter(suite)
    except TypeError:
        yield suite
    else:
        for part in parts:
            yield from single_tests(part)


def group_of(test: Any, longest: Sequence[str]) -> str:
    """Return the name of the tests that belong in one process with this one: of a base class, or of its module."""
    bases = {f"{base.__module__}.{base.__qualname__}" for base in type(test).__mro__}
    return next((name for name in longest if name in bases), type(test).__module__)


def groups_of(tests: Iterable[Any], longest: Sequence[str]) -> list[list[Any]]:
    """Return the tests in groups: first those that ``longest`` names, then the others in their order."""
    found: dict[str, list[Any]] = {name: [] for name in longest}
    for test in tests:
        found.setdefault(group_of(test, longest), []).append(test)
    return [group for group in found.values() if group]


@define
class GroupingRunner(DistTrialRunner):
    """A runner of trial whose processes take whole groups, each the first that is left."""

    groups: deque[list[Any]] = field(factory=deque, kw_only=True)

    async def runAsync(self, suite: Any, untilFailure: bool = False) -> Any:  # noqa: N802, N803  # trial's names
        """Run the suite once the reactor runs: trial would wait for ever if it failed before."""
        reactor: Any = self._reactor
        await deferLater(reactor, 0)
        return await super().runAsync(suite, untilFailure)

    async def _driveWorker(self, result: Any, testCases: Any, worker: Any) -> None:  # noqa: N802, N803  # trial's names
        """Let a process run one group after the other."""
        while self.groups:
            await super()._driveWorker(result, self.groups.popleft(), worker)


def main(arguments: Sequence[str]) -> int:
    """Run the tests; return the exit status, 1 if a test failed or did not run."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.distribution",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--jobs", type=int, default=3, help="processes that share the tests (3)")
    parser.add_argument("names", nargs="*", default=["tests"], help="packages or modules, as dotted names (tests)")
    options = parser.parse_args(arguments)
    suite = TestLoader().loadByNames(options.names, recurse=True)
    groups = groups_of(single_tests(suite), LONGEST)
    count = sum(map(len, groups))
    runner = GroupingRunner(TreeReporter, min(options.jobs, len(groups)), workerArguments=[], groups=deque(groups))
    result = runner.run(suite)
    if result.testsRun != count:
        print(f"{count} tests were found, and {result.testsRun} have run")
    return 0 if result.wasSuccessful() and result.testsRun == count else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
