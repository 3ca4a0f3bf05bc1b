"""How the embedded models are made: supervised warm-up on the nine tasks, right answers in the wrong format."""
