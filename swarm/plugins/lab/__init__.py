"""Holds what experiments on the algorithm need: how the embedded models are made, and specialists."""
