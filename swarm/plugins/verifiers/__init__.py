"""Environments of the library `verifiers` (0.4), whose questions, replies and rewards follow from a seed.

family       what nodes know of it: names, profiles, and how a settings file's table is completed
definition   the parameters of one task, checked
environment  the library's objects of a task, in a process that may import them, and what of them is refused
rows         the tasks of a taskset, by number, and the SHA-256 of them and of the package; __main__ tells it to nodes
loop         an event loop without files, sockets, threads or a clock
playing      an episode with the turns that a model has said so far: what is said to it next, or what it earned
trials       the first questions, played twice in confined children before a run asks any
questions    make, reply and score, in the scoring server's children

`verifiers` is imported in scoring servers and by __main__, in no node.
"""
