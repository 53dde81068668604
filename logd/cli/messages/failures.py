"""Reports on stderr the messages that a command could not deliver."""

from __future__ import annotations

from logd.cli.terminal.exits import complain
from logd.client.consumer.fetching.batches import MessageBatch
from logd.client.consumer.fetching.losses import LossReporter


def complain_of(losses: LossReporter, batch: MessageBatch) -> None:
    """Write a line for each jump that a batch reports, and the growing totals of gaps and damage."""
    for loss in batch.losses:
        for line in losses.add(loss):
            complain(line)


def complain_of_rest(losses: LossReporter) -> None:
    """Write the totals that have not been written yet."""
    for line in losses.rest():
        complain(line)
