"""Decides which tokens of external completions are learned from, by how likely the own policy is to write them.

    log-probs before the update [M], advantages [M] ──learned_tokens──▶ bool [M] ──▶ no gradient flows where it is False

A peer's text may be right and still not be what this policy should learn to say: words that are planted in front of
right answers ("Hail to the Thief", arXiv:2511.09780) are, to a policy that has not learned them yet, tokens of very low
probability, and so are those of wrong answers that it would never have written, whose gradient at a negative advantage
is large and says little. Own tokens are never left out. Torch is not imported: these are methods. Sizes: M tokens.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from torch import Tensor


class Floors(NamedTuple):
    """Natural logarithms of the least probability at which an external token is learned from; None: there is none."""

    any_advantage: float | None = None
    """Floor of every token. Below 0."""
    negative_advantage: float | None = None
    """Of tokens with a negative advantage alone; 0: none of them is learned from.

    A filter of off-policy samples with negative advantages, as DeepSeek-V3.2's sequence masking (arXiv:2512.02556,
    section 3.1), here by token and by its probability under the own policy, since a stranger's is not to be believed.
    """

    @property
    def wanted(self) -> bool:
        """Tells whether there is one."""
        return self.any_advantage is not None or self.negative_advantage is not None


def strictest(several: Sequence[Floors]) -> Floors:
    """Returns floors below which a token is where it is below any of these."""
    known = ([floor for floor in column if floor is not None] for column in zip(*several, strict=True))
    return Floors(*(max(floors, default=None) for floors in known))


def learned_tokens(old_logprob_M: Tensor, advantage_M: Tensor, own_M: Tensor, floors: Floors) -> Tensor:
    """bool [M], False on external tokens below the floors.

    Args:
        old_logprob_M: of each token under the own policy before the update, so that later iterations leave out the
            same tokens.
        own_M: bool [M], the token is the own policy's.
    """
    left_out_M = own_M.new_zeros(own_M.shape)
    if floors.any_advantage is not None:
        left_out_M = left_out_M | (old_logprob_M < floors.any_advantage)
    if floors.negative_advantage is not None:
        unlikely_M = (old_logprob_M < floors.negative_advantage) | (floors.negative_advantage >= 0)
        left_out_M = left_out_M | ((advantage_M < 0) & unlikely_M)
    return own_M | ~left_out_M


def without_gradient(logprob_M: Tensor, learned_M: Tensor) -> Tensor:
    """Returns the same log-probs [M], constants where a token is not learned from: whatever the loss, it gets no
    gradient."""
    return logprob_M.where(learned_M, logprob_M.detach())
