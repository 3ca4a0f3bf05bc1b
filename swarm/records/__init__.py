"""Reads a run: rows, registrations, the round clock, who is alive."""
