"""Run a matrix of swarms, or go on with it; start at runner.py."""
