"""What readers may see of a log, and those who wait for more."""
