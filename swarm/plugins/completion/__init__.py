"""Completes commands, flags and choices in a shell."""
