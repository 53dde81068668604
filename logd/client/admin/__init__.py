"""Administration: topics, the inside of logs, repairs, the lag and the positions of groups."""
