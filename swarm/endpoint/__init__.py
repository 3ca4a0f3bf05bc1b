"""Completions from any OpenAI-compatible endpoint: vLLM, llama.cpp's server, Ollama, `transformers serve`, a provider.

    question ─▶ asking ─▶ client ─▶ replies | outcomes ─▶ generation ─▶ groups of G completions
                             what is sent, and when: generation, from limits

generator     behind swarm.types.Generator; carries out what the generation decides, says what people should know
config        EndpointConfig: which endpoint, how it is asked, what it may cost
key           where the key is read, and what keeps it out of everything
asking        a question -> one request's body; what that costs at most
client        one request over the network; the only module that imports openai
replies       a reply's bytes -> text, checked and cut
outcomes      what a reply is, and of which kinds failures are
generation    which request is sent next, and when it is over
limits        what holds the next request back: a cap, a limit per minute, failures; the pause before another
usage         totals, as a small JSON state
"""
