"""The second part of the demonstration: a pipeline under harm, and the verdict of the audit in plain words."""

from __future__ import annotations

from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path

from rich.console import Console
from rich.table import Table

from demo.load import why_not
from demo.pipeline import Pipeline, PipelineFailure
from logd.plurals import counted

#: The number of events that a producer gets before each step.
EVENTS = 2_000


def show_pipeline(console: Console, folder: Path) -> bool:
    """Run the pipeline under harm, remove one message by hand, and print what the audit says.

    Returns True when the audit found nothing missing before, and just that message after.
    """
    if find_spec("fastavro") is None:
        console.print("[yellow]skipped the pipeline: fastavro is not installed (pip install fastavro)[/]")
        return True
    pipeline = Pipeline(folder)
    processes = pipeline.processes
    try:
        pipeline.start()
        console.print(
            "\n[bold]the pipeline[/]: started a live cluster of two brokers, an offline cluster, and a mirror from one "
            "to the other that copies schemas too"
        )
        web1, report = pipeline.produce("web1", "first"), pipeline.report()
        pipeline.feed(web1, EVENTS)
        report.wait_for(range(EVENTS))
        console.print(f"server web1 publishes Avro events; the offline cluster's report has read {EVENTS:,}")
        for name, victim in (
            ("the mirror", processes.mirror),
            ("a broker of the live cluster", processes.live.brokers[1]),
        ):
            pipeline.feed(web1, EVENTS)
            pipeline.kill(victim)
            console.print(f"[bold]killed {name} (SIGKILL)[/] while events flow, and started it again")
        web2 = pipeline.produce("web2", "second")
        pipeline.feed(web2, EVENTS, agent="demo")
        console.print("server web2 publishes by the next version of the schema, which has a field more")
        pipeline.kill(processes.offline.brokers[0])
        console.print("[bold]killed the broker of the offline cluster (SIGKILL)[/], and started it again")
        acknowledged = pipeline.finish(web1) + pipeline.finish(web2)
        report.wait_for(range(pipeline.events))
        report.stop()
        again = sum(report.numbers.values()) - len(report.numbers)
        console.print(
            f"acknowledged {acknowledged:,} events; the report has read {len(report.numbers):,} different ones, of "
            f"{counted(len(report.schemas), 'schema')}, and {again:,} of them again, since servers were killed"
        )
        tiers = ["produced", "mirrored", "consumed"]
        reason = why_not()
        if reason is None:
            loaded = pipeline.load(folder / "imported")
            console.print(f"imported {loaded:,} messages from the offline cluster with Spark, as typed columns")
            tiers.append("loaded")
        complete = _print_audit(console, pipeline, tiers)
        return (
            _remove_one(console, pipeline)
            and complete
            and acknowledged == len(report.numbers)
            and not any(pipeline.stop())
        )
    except PipelineFailure as failure:
        console.print(f"[bold red]the pipeline failed: {failure}[/]")
        return False
    finally:
        pipeline.end()


def _print_audit(console: Console, pipeline: Pipeline, tiers: list[str]) -> bool:
    """Print a line for each window and tier; return True when nothing is missing or unaccounted."""
    verdicts, complaints = pipeline.audit(*tiers)
    table = Table(title="logd audit, on the offline cluster")
    for heading in ("window", "tier", "expected", "seen", "missing", "again"):
        table.add_column(heading, justify="left" if heading in ("window", "tier") else "right")
    for each in verdicts:
        begin = datetime.fromtimestamp(each["window"] / 1000, UTC).strftime("%H:%M:%S")
        tier = f"{each['tier']} by {each['group']}" if each["group"] else each["tier"]
        table.add_row(begin, tier, *(f"{each[name]:,}" for name in ("expected", "seen", "missing", "duplicated")))
    console.print(table)
    complete = bool(verdicts) and not any(each["missing"] or each["unaccounted"] for each in verdicts)
    console.print("the audit: every window is complete in every tier" if complete else f"the audit: {complaints}")
    return complete


def _remove_one(console: Console, pipeline: Pipeline) -> bool:
    """Remove one message from a segment by hand before it is mirrored; return True when the audit names its loss."""
    mirror = pipeline.processes.mirror
    stopped = mirror.stop()
    web3, begin = pipeline.produce("web3", "second"), pipeline.events
    pipeline.feed(web3, 3)
    pipeline.finish(web3)
    place = pipeline.remove_one(begin + 1)
    console.print(
        f"[bold]removed one of three messages of server web3 by hand[/] from a segment of {place} (logd repair)"
    )
    mirror.start()
    report = pipeline.report()
    report.wait_for([begin, begin + 2])
    report.stop()
    verdicts, complaints = pipeline.audit("produced", "mirrored", "consumed")
    missing = [each for each in verdicts if each["missing"]]
    console.print(f"the audit: {' '.join(complaints.replace('logd: ', '').split())}")
    return not stopped and bool(missing) and all(each["missing"] == 1 for each in missing)
