"""The records of runs as pandas frames and as files; start at frames.py."""
