"""Long runs of the suite and of its random tests, for a night or a week-end rather than for each change."""
