"""Tests of the verification of stored messages in the background."""
