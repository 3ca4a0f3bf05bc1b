"""How long a test waits for what ought to happen: against hanging alone, so that no machine is too slow for it."""

PATIENCE = 400.0
"""Seconds before a test gives up."""
