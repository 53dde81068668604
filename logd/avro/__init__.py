"""Avro messages with schemas of a registry, for Twisted: a client of the registry, a serializer and a deserializer."""
