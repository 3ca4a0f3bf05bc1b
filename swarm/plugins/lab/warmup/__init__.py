"""Supervised warm-up of the embedded models on the nine tasks: right answers, few of them in the accepted format."""
