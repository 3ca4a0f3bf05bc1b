"""Whole swarms in virtual time, out of one seed: the nodes are the product's own, the world around them is made up.

    virtual_time.py    an event loop whose time passes while all wait; lives that are paused and ended in it
    plan.py            what a seed stands for: how many nodes, which settings, which faults
    faults.py          the kinds of fault and their rates
    network.py         who sees what of whom, and when: tests.doubles.faulty, drawn from the seed
    engine.py          a policy of numbers, and questions and scores by arithmetic
    hosts.py           machines with clocks and disks; lives, deaths, and what a node is given
    nodes.py           the real worker and coordinator on a host, and the machines within them under watch
    watched_store.py   a host's store in memory, faulty, and watched
    villains.py, onlooker.py    who else is there
    stranger_laws.py   what those who mean no good may cost the others
    laws.py            what has to hold after every step
    world.py           everything put together

`python -m tests.simulation --help` says how to run it.
"""
