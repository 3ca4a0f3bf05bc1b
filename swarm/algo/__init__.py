"""SAPO's decisions (arXiv:2509.08721): pure functions without I/O, clock, torch or global randomness.

registry.py alone looks outside: it imports a function of the user's own.
"""
