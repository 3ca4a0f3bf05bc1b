"""`swarm doctor`: what would hurt a swarm in a shared place, with one line to fix each.

    figures (swarm.store.health, swarm.records, this machine) ─▶ judge, pure ─▶ Finding ─▶ text or JSON

examine    runs all areas          context, watching   what several areas look at, read once
place      writing, renames, names, clock of the place     room     free space, what lies around
hints      events and inotify's limits                     nodes    who is alive, and disagrees
logs       refused peers, versions                         saved    round clock, checkpoints, ends of logs
machine    this machine                                    finding  what a check found
"""
