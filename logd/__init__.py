"""Collects and delivers high volumes of log data: topics of partitioned, append-only logs behind a network service."""
