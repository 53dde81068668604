"""The part of a log that readers may see, and those who wait for more."""
