"""What every node has: identity, clock, registration, queue of writes."""
