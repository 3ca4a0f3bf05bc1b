"""A node: pure state machines that decide, and the loops that carry out what they decide.

decide     worker_machine, coordinator_machine, liveness (who is waited for), pace (for how long)
carry out  worker, coordinator; round_steps (a round), round_work (its data), metrics_row (its row), executor (compute)
see        lookout (clock and peers), intake (peers' groups into the pool)
keep       patience (a folder that is away for a while), checkpoints, resume (where a clock goes on), experiment (what
           makes it the same one)
be         daemon (a node as a process), in_process (several in one), dealing (which of them gets what), presence
           (registration, heartbeat), host, names, stopping (signals), lease (turns on a device)
measure    clock, timeline, lag
"""
