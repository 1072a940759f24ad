"""DropMatch, lossy: a drafted token passes if the draft looks like one more dropout sample of the target."""

import torch
from torch import Tensor

from specproof.errors import SpecproofError
from specproof.rules.longest import longest_path
from specproof.rules.rows import drawn_rows, pick
from specproof.types import Draft, Law


def dropmatch(target: Tensor, draft: Draft, *, masked: Tensor | None = None) -> Law:
    """Law of DropMatch on chains; target is [B, N+1, V].

    Needs what a rule is not given: the target's rows under K dropout masks on the last hidden state. They
    are `masked` [B, N+1, K, V], to be bound afresh for every step (`functools.partial`); no backend returns
    them, so no engine can use this rule. Without them there is no dropout: K = 1, the target itself.

    A rejected token is replaced by a draw from the target, which the extra token comes from as well. There
    is no guarantee on the law.

    Source: DropMatch 2026 (2603.03333).
    """
    masked = target[:, :, None] if masked is None else masked
    if masked.dim() != 4 or (*masked.shape[:2], masked.shape[3]) != tuple(target.shape):
        b, n, v = target.shape
        raise SpecproofError(f"masked rows are {tuple(masked.shape)}; give [{b}, {n}, K, {v}]")
    passes = matches(drawn_rows(target, draft)[:, :-1], draft.tokens, masked[:, :-1])
    return Law(longest_path(draft, passes).to(target.dtype), lambda at: pick(target, at))


def matches(drawn: Tensor, tokens: Tensor, masked: Tensor) -> Tensor:
    """Whether each drafted token passes, [..] bool.

    The centre is the softmax of the mean logits of the K masked rows. A token passes if the draft's row is as
    close to the centre as the farthest masked row (Jensen-Shannon; which token was drafted does not matter
    then), or if it is what most masked rows have as their largest, of equal counts the lowest token.

    Args:
        drawn: [.., V], the rows that the tokens were drawn from.
        tokens: [..].
        masked: [.., K, V]; its logarithms serve as logits, since the constant cancels in the softmax.
    """
    # Rows with no token in common leave no centre: uniform then, and the vote decides.
    centre = torch.nan_to_num(masked.log().mean(-2).softmax(-1), nan=1 / masked.shape[-1])
    spread = jensen_shannon(masked, centre[..., None, :]).amax(-1)
    return (jensen_shannon(drawn, centre) <= spread) | (_majority(masked.argmax(-1)) == tokens)


def jensen_shannon(rows: Tensor, other: Tensor) -> Tensor:
    """Jensen-Shannon divergence of rows [.., V] in nats, [..]."""
    middle = (rows + other) / 2
    return _kl(rows, middle) / 2 + _kl(other, middle) / 2


def _majority(votes: Tensor) -> Tensor:
    """The value found most often among votes [.., K]; of equally frequent ones the lowest."""
    counts = (votes[..., None] == votes[..., None, :]).sum(-1)
    return torch.where(counts == counts.amax(-1, keepdim=True), votes, votes.amax(-1, keepdim=True)).amin(-1)


def _kl(rows: Tensor, other: Tensor) -> Tensor:
    return torch.where(rows > 0, rows * (rows / other).log(), 0).sum(-1)
