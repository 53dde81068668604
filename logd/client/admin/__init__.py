"""Administration: topics, the inside of logs, repairs, and the lag and positions of groups."""
