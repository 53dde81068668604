"""Topics of a broker: the coordination tree compared with the stored logs, and the stored ends in the tree."""
