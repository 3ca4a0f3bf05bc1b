"""Runs made by rl-swarm's Google Drive fork (github.com/Elrashid/rl-swarm), read as if they were ours.

    forms     the files of such a run
    rewards   from what one node logged of a round to its mean reward per completion, or the reason why nobody can know
    nodes     all that is known of one node
    run       all that is known of a run
    store     the run as a read-only Store of our keys and forms, so that every reader of a run reads it unchanged

What rl-swarm does not record has no value here: RECORDED names the columns that have one.
"""
