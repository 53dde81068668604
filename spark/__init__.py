"""Loads topics into Apache Spark in batches, imported as ``logd.spark``: the data source and the importer."""
