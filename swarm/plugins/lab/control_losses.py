"""Control losses: what a swarm learns where its nodes are taught by another objective than GRPO."""

from __future__ import annotations

from swarm.algo.losses import LossInputs, LossSettings, TokenLosses


def cloning(batch: LossInputs, settings: LossSettings) -> TokenLosses:
    """Supervised learning on peers' right texts: -logprob of external completions with a positive advantage.

    Nothing else is learned from: neither own completions nor wrong ones. So it is behaviour cloning on what GRPO would
    have praised, filtered by the same verifier and drawn by the same rule.
    """
    taught_M = ~batch.own & (batch.advantages > 0)
    return TokenLosses(-batch.logprobs * taught_M)
