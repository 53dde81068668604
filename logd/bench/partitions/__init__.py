"""The same messages over few and over many partitions."""
