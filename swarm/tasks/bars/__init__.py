"""Bars of a scoring server and its children: what the kernel refuses them, whatever code runs there.

    server, once, after its imports   put_up: no new privileges, no capabilities, Landlock (files, TCP, signals)
    child, once it is limited         Bars.close_calls: seccomp, a list of the few system calls that computing needs

    barriers    which are up, and why not those that are not
    landlock    closes files, TCP ports, abstract sockets and signals to others
    seccomp     closes system calls
    calls       numbers of system calls, and how they are made

Each bar is optional and independent: where the system has none of them, scoring works as with all, behind the limits of
swarm.tasks.bounded and the audit hook of swarm.tasks.sandbox alone. `python -P -m swarm.tasks.bars` says which are up.

All goes through ctypes: PyPI's landlock is a development version, pyseccomp is of 2021 and needs the libseccomp of the
system, and a list of some twenty calls is forty instructions.
"""

from swarm.tasks.bars.barriers import Bar, Bars, put_up

__all__ = ["Bar", "Bars", "put_up"]
