"""Requests of every kind and version: sound ones, random ones, and such as make much of few bytes."""
