"""Tests of the choice between --broker and --zookeeper."""

from __future__ import annotations

import click
from click.testing import CliRunner
from twisted.trial.unittest import SynchronousTestCase

from logd.cli.broker_search import broker_search_option, cluster_place
from logd.cli.options import broker_option


class ClusterPlaceTests(SynchronousTestCase):
    """``cluster_place``."""

    def test_the_command_line_comes_before_the_environment_and_brokers_before_the_tree(self) -> None:
        """Without any of them it is the broker of this machine."""

        @click.command()
        @broker_option
        @broker_search_option
        @click.pass_context
        def command(ctx: click.Context, /, broker: str, zookeeper: str | None) -> None:
            place = cluster_place(ctx, broker, zookeeper)
            click.echo(f"tree {place.zookeeper}" if place.zookeeper else f"broker {place.broker}")

        broker, tree = {"LOGD_BROKER": "b:1"}, {"LOGD_ZOOKEEPER": "z:2"}
        for environment, arguments, expected in (
            ({}, [], "broker 127.0.0.1:6667"),
            ({}, ["--zookeeper", "t:3/logd"], "tree t:3/logd"),
            (tree, [], "tree z:2"),
            (tree, ["--broker", "c:4"], "broker c:4"),
            (tree | broker, [], "broker b:1"),
            (tree | broker, ["--zookeeper", "t:3"], "tree t:3"),
            (broker, ["--zookeeper", "t:3"], "tree t:3"),
        ):
            clean = {"LOGD_BROKER": None, "LOGD_ZOOKEEPER": None}
            result = CliRunner(env={**clean, **environment}).invoke(command, arguments)
            self.assertEqual(result.output, f"{expected}\n", (environment, arguments))
