"""Completions of a node's own policy from a generation server, vLLM, in a process of its own.

    adapter ─copy─▶ folder ─load under a new name─▶ server ─ids and log-probs─▶ checked ─▶ Completions

policy        a policy that trains here and generates there: what a worker is given
generator     behind swarm.types.RemoteGenerator: what is asked, how long is waited, what is believed
config        ServerConfig: which server; what of a node's settings it cannot do is refused
server        what is asked of the server: models, adapters, completions
client        one request over the network, by the standard library
replies       a reply's bytes -> ids and log-probs, checked
adapters      versions of a node's adapter: their folders and names, and when they go
"""
