"""`swarm doctor`: what would hurt a swarm in a shared place, with one line to fix each.

    figures (swarm.store.health, swarm.records, this machine) ─▶ judge, pure ─▶ Finding ─▶ text or JSON

examine    runs all areas          check, watching    what an area is given, read once, and what it gives
place      writing, renames, names, clock, events of the place     room     free space, what lies around
bucket     permissions, promises and speed of a bucket
nodes      who is alive, and who disagrees     saved    round clock, checkpoints, ends of logs
logs       refused peers, versions             machine  this machine
scoring    bars around the children that score         start    models and device of a node that is started here
"""
