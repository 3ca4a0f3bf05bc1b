"""Held-out questions: a service that asks them by files (a node's side: node/held_out.py), an exam of saved models."""
