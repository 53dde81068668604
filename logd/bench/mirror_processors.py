"""The processor time that mirroring takes beside raw consuming, and the ratio of their rates that it allows."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from attrs import frozen


@frozen
class ProcessorTimes:
    """Processor time of each process, all its threads, in ms for each megabyte of log."""

    #: While a consumer reads raw bytes.
    consumed_source: float
    consumer: float
    #: While a mirror runs.
    mirrored_source: float
    mirror: float
    target: float

    @classmethod
    def medians(cls, rounds: Sequence[ProcessorTimes]) -> ProcessorTimes:
        """Return the median of each figure."""
        return cls(
            median(each.consumed_source for each in rounds),
            median(each.consumer for each in rounds),
            median(each.mirrored_source for each in rounds),
            median(each.mirror for each in rounds),
            median(each.target for each in rounds),
        )

    @property
    def ratio(self) -> float:
        """Return the mirror's bytes for each second of its own processor time divided by the raw consumer's."""
        return self.consumer / self.mirror if self.mirror else 0.0

    def possible_ratio(self, processors: int) -> float:
        """Return the ratio of the rates that these times allow where nothing else runs and nothing waits."""
        consuming = _least_time((self.consumed_source, self.consumer), processors)
        mirroring = _least_time((self.mirrored_source, self.mirror, self.target), processors)
        return consuming / mirroring if mirroring else 0.0

    def figures(self, processors: int) -> dict[str, float]:
        """Return the figures by name: the sums of consuming and mirroring are those of all their processes."""
        return {
            "consumer_processor_ms_per_megabyte": round(self.consumer, 3),
            "mirror_processor_ms_per_megabyte": round(self.mirror, 3),
            "consuming_processor_ms_per_megabyte": round(self.consumed_source + self.consumer, 3),
            "mirroring_processor_ms_per_megabyte": round(self.mirrored_source + self.mirror + self.target, 3),
            "processor_ratio_to_consumed": round(self.ratio, 3),
            "possible_ratio_to_consumed": round(self.possible_ratio(processors), 3),
        }

    def meaning(self, processors: int) -> str:
        """Return a sentence about the ratio of the rates."""
        mirroring = self.mirrored_source + self.mirror + self.target
        if not self.mirror:
            return "too few messages to measure the processor time of mirroring, which is counted in steps of 10 ms"
        return (
            f"mirroring takes three processes (source, mirror, and a target that checks, stores and flushes) and "
            f"{mirroring:.2f} ms of processor time for each megabyte; raw consuming takes two and "
            f"{self.consumed_source + self.consumer:.2f} ms, and stores nothing. On {processors} processors without "
            f"other work these times allow a ratio of about {self.possible_ratio(processors):.2f}"
        )


def _least_time(processes: Sequence[float], processors: int) -> float:
    """Return the least time in which these processes can do their work: one uses one processor at a time, mostly."""
    return max(*processes, sum(processes) / processors)
