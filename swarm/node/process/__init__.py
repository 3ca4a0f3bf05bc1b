"""A node as an operating-system process: threads, signals, leases, exit codes."""
