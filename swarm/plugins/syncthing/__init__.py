"""A folder that Syncthing replicates between machines: one subtree per member, who alone writes it.

{path}/replicated.json            which subtree is whose: this machine's own file, never replicated
       lab/members.json           the host's list of members
       lab/experiments/demo/...   what the nodes of the member `lab` wrote; send-only on lab's machine,
       ben/experiments/demo/...   and receive-only on all others

membership ─▶ store, place: one key space, in which each key is looked for in its owner's subtree alone
syncthing ◀─ setting_up ◀─ `swarm invite`, `swarm join --invitation`, and nodes while they run
"""
