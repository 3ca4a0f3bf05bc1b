"""Completions that are written elsewhere: by an endpoint, or by a person (plugins/person).

    GenerationCall ─write─▶ RemoteWriter ─▶ Generation: what next? ─Send─▶ endpoint | person
                              groups ◀─ complete, or given up ◀─ Reply | Failure ◀──┘

All of it runs on the node's event loop: the compute thread is free meanwhile.

What all have in common:

client            one request over HTTP, bounded; the only module that knows httpx
key               a server's address, and the key for it, which is shown nowhere
outcomes          a reply, or a failure of a kind that says what follows
limits            what holds the next request back: caps and failures; usage; the pause before another
generation        which request is sent next, and when it is over; carries that out

What differs:

endpoint          any OpenAI-compatible API: what it may cost, how it is looked at (endpoint_config, endpoint_forms)
"""
