"""Held-out questions: a service that asks them by files, and an exam of saved models.

A node's side of it is node/worker/features.py.
"""
