"""`swarm doctor`: what would hurt a swarm in a shared place, with one line to fix each.

    figures (swarm.store.health, swarm.records, this machine) ─▶ judge, pure ─▶ Finding ─▶ text or JSON

examine    runs all areas
check      what an area is given, read once, and what it gives; the nodes, watched
place      a shared folder, its room, events, and how late others see it
remote     a bucket
nodes      who is alive; round clock, hints, versions
machine    whether nodes run here, the bars around scoring
"""
