"""Trackers of experiments that get the rows of a run: TensorBoard, trackio, Weights & Biases, each by its own library.

    the place ─ GrowingLines ─▶ Feed ─▶ Sink: written, row, flush, close ─┬ tensorboard   event files
                                 │                                        ├ trackio       its local database
            rows as numbers                                       ├ wandb         its offline files
                                                                          └ anybody's     its entry in `swarm.sinks`

A sink says itself which rows it keeps, so that none is doubled or lost by whatever ended the program before.

base          the contract, and what a sink is opened for
feed          follows a run, and hands each row over once, as names and finite numbers
opening       kind -> sink, by entry points in `swarm.sinks`; what is missing for it
tensorboard, trackio, wandb   the sinks
run           `swarm sink run`
beside        what `swarm up` starts for SWARM_SINKS
"""
