"""swarm: post-train small language models together, through nothing but a shared folder (SAPO, arXiv:2509.08721)."""

__version__ = "0.1.0"
