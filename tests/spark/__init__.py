"""Tests of logd.spark without Spark: options, planning, reading and producing over made-up brokers."""
