"""Latencies of requests and flushes."""
