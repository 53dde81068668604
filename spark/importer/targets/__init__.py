"""Targets of an import: where runs become visible, on local file systems and Hadoop's."""
