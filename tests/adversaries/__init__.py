"""Nodes that mean harm, for real swarms: what they do is in kinds.py, what they achieve is measured by __main__.py."""
