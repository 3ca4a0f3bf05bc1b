"""SAPO's decisions (arXiv:2509.08721): pure functions without I/O, clock, torch or global randomness.

named.py alone looks outside: it imports a sampler or an adaptive rule of the user's own.
"""
