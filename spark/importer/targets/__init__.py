"""Targets of an import, on local file systems and Hadoop's."""
