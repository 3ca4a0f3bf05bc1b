"""A node: pure state machines that decide, and the loops that carry out what they decide."""
