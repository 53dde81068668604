"""Avro schemas without I/O: parsing, the text that is stored, and compatibility by the specification's resolution."""
