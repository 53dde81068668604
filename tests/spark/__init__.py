"""Tests of logd.spark without Spark: options, planning, reading and producing, against a broker in memory."""
