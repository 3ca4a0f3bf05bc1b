"""Hostile files through the readers of a node: hand-made ones, and mutations of good ones."""
