"""The verification of stored messages in the background, and the damage that it finds."""
