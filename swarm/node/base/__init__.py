"""Holds what every node has: context, clock, registration, write queue."""
