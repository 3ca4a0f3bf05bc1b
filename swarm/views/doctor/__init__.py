"""What would hurt a swarm in this folder, and one line to fix each: `swarm doctor`.

    measure ──▶ a struct of figures ──▶ judge, pure ──▶ Finding ──▶ text or JSON

One file per area. `examine` runs them all; `registry` says which there are. Nothing is left behind: what is written
lies in one probe folder, outside everything that nodes watch or count, and goes at the end.
"""
