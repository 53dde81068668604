"""Random lives of a data directory on a disk that loses power."""
