"""Rates and latencies of logd in many shapes of load, beside the limits of the machine for the same bytes."""
