"""Holds the commands of studies; `studies` has those that only look."""
