"""Whole swarms in virtual time, out of one seed: the deciding code is real, the world around it is made up.

    plan.py       what a seed stands for: how many nodes, which faults and when
    faults.py     the kinds of fault and their rates
    network.py    who sees what of whom, and when
    folder.py     what was written
    process.py    clocks, pauses, deaths, and writing step by step
    worker_node.py, coordinator_node.py, villains.py    who lives in it
    laws.py       what has to hold after every step
    world.py      time, and everything put together

`python -m tests.simulation --help` says how to run it.
"""
