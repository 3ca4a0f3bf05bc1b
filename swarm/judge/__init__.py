"""Held-out questions: a service that asks them by files, and an exam of saved models."""
