"""Holds where bytes of a shared place live: the store contract and its implementations."""
