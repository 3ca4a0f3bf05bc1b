"""Computations on frames: measures of a run, statistics over seeds. Pure, but for what compare.py loads by name."""
