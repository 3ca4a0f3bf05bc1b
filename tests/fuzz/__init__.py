"""Hostile files through the readers of a node: hand-made ones, and a coverage-guided search for more."""
