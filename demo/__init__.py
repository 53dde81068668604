"""The main job on real input: ``python -m demo`` collects logs, reads them back elsewhere, and compares."""
