"""The worker: state machine, loop, the steps of a round, checkpoints, redo."""
