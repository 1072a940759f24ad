"""The best choice of one token out of k independent draws, with the exact law of what is chosen.

Laws that a choice can have are those that give every set H of tokens at least draft(H)^k, the chance that all
draws lie in H. With tokens sorted by density (law/draft), only the sets of the first few tokens matter: the curve
of cumulated law over cumulated draft, which is convex, has to stay above t^k. Such a curve is a mixture of
polygons inscribed in t^k with fewer and fewer corners; and the polygon with corners T is the law of a simple
choice: T cuts the sorted tokens into blocks, take the highest block that was drawn, and in it the first draw.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from specproof.rules.powers import bend, chord

# Larger vocabularies are put into this many classes of like density. Acceptance is then below the optimum by at
# most (highest - lowest density of the law) / (4 · LEVELS).
LEVELS = 128


class Selector(NamedTuple):
    """A choice among draws.

    Attributes:
        law: [M, V] of the chosen token.
        level: [M, V] place of each token's class in the order of densities.
        until: [M, L-1]; the share of the mixture in which the cut between class i and i+1 is there.
    """

    law: Tensor
    level: Tensor
    until: Tensor


def best_selector(target: Tensor, drawn: Tensor, count: Tensor) -> Selector:
    """The choice among `count` [M] draws whose law has most in common with the target; rows [M, V] float64."""
    density, order = aim(target, drawn, count)
    levels = min(LEVELS, drawn.shape[1])
    if levels == drawn.shape[1]:
        level = torch.empty_like(order).scatter_(
            1, order, torch.arange(levels, device=order.device).expand_as(order)
        )
    else:
        least = torch.where(drawn > 0, density, torch.inf).amin(-1, keepdim=True)
        width = (density.amax(-1, keepdim=True) - least).clamp(min=torch.finfo(density.dtype).tiny)
        level = ((density - least).clamp(min=0) / width * levels).long().clamp(max=levels - 1)
    mass = drawn.new_zeros(len(drawn), levels).scatter_add_(1, level, drawn)
    mean = torch.zeros_like(mass).scatter_add_(1, level, drawn * density) / mass
    # Classes without tokens get their lower neighbour's density: no corner between them.
    mean = torch.where(mass > 0, mean, 0).cummax(-1).values
    until, slope = unmix(mass.cumsum(-1)[:, :-1].clamp(max=1), mean, count)
    return Selector(drawn * slope.gather(1, level), level, until)


def aim(target: Tensor, drawn: Tensor, count: Tensor) -> tuple[Tensor, Tensor]:
    """Density [M, V] of the best law, 0 where nothing is drawn, and the order [M, V] of tokens by it.

    Of the sets of first tokens, let H be the one for which all draws lie in H more often than the target by the
    largest gain. Then no law has more than 1 - gain in common with the target. The target's density, raised to
    a floor within H and cut to a ceiling outside, so that each side changes by the gain, attains it.
    """
    density = torch.where(drawn > 0, target / drawn, torch.inf)
    order = density.argsort(stable=True)
    edge = drawn.new_zeros(len(drawn), 1)
    below = torch.cat([edge, target.gather(1, order).cumsum(-1)], 1)  # target mass of the first tokens, [M, V+1]
    under = torch.cat([edge, drawn.gather(1, order).cumsum(-1)], 1)
    above, over = _rest(target.gather(1, order)), _rest(drawn.gather(1, order))  # of the tokens after them
    gain, cut = (under ** count[:, None] - below).max(-1, keepdim=True)
    place = torch.arange(under.shape[1], device=order.device)
    floor = torch.where((place <= cut) & (under > 0), (gain + below) / under, torch.inf).amin(-1, keepdim=True)
    floor = torch.where(cut > 0, floor, 0)
    ceiling = torch.where((place >= cut) & (over > 0), (above - gain) / over, 0).amax(-1, keepdim=True)
    ceiling = torch.where((over > 0).gather(1, cut), ceiling, torch.inf)
    return torch.where(drawn > 0, density.clamp(floor, ceiling), 0), order


def unmix(cuts: Tensor, density: Tensor, count: Tensor) -> tuple[Tensor, Tensor]:
    """Take a convex curve apart into inscribed polygons of t^count.

    The polygon with a corner wherever the curve still has one is taken out until one of its corners is used up.

    Args:
        cuts: [M, L-1] cumulated draft between the classes.
        density: [M, L] slopes of the curve, ascending.
        count: [M].

    Returns:
        until: [M, L-1] how much was taken out when each corner was used up; 1 if it never was.
        slope: [M, L] slopes of the mixture, which are `density` up to rounding.
    """
    corner = density.diff(dim=-1)
    alive = (corner > 0) & (cuts > 0) & (cuts < 1)
    until, slope = alive.to(cuts.dtype), torch.zeros_like(density)
    left, edge = torch.ones_like(density[:, :1]), torch.zeros_like(density[:, :1])
    while bool((left > 0).any()):
        low = torch.cat(
            [edge, torch.where(alive, cuts, 0).cummax(-1).values], 1
        )  # where each class's block begins
        high = torch.cat([torch.where(alive, cuts, 1).flip(-1).cummin(-1).values.flip(-1), edge + 1], 1)
        bends = bend(low[:, :-1], cuts, high[:, 1:], count[:, None])
        time = torch.where(alive & (bends > 0), corner / bends, torch.inf)
        taken = torch.cat([time, left], 1).amin(-1, keepdim=True)
        slope += taken * chord(low, high, count[:, None])
        corner = (corner - taken * bends).clamp(min=0)
        left = left - taken
        dead = alive & (time <= taken)
        until = torch.where(dead, 1 - left, until)
        alive = alive & ~dead
    return until, slope


def select(selector: Selector, tokens: Tensor, present: Tensor) -> Tensor:
    """Probability of each draw to be the chosen one, [M, K], given all draws [M, K]; 0 for padding."""
    level = selector.level.gather(1, tokens)
    top = level.masked_fill(~present, -1).amax(-1, keepdim=True)
    place = torch.arange(selector.until.shape[1], device=tokens.device)
    # Once the last cut between a draw and the highest one is gone, they are in one block.
    between = torch.where(place < top, selector.until, 0)
    together = torch.cat([between.flip(-1).cummax(-1).values.flip(-1), torch.zeros_like(level[:, :1])], 1)
    together = together.gather(1, level).masked_fill(~present, 1)
    # From then on it is chosen, until an earlier draw joins the block.
    earlier = torch.cat([torch.ones_like(together[:, :1]), together.cummin(-1).values[:, :-1]], 1)
    return (earlier - together).clamp(min=0)


def _rest(rows: Tensor) -> Tensor:
    """Sums over all tokens from each place on: [M, V] to [M, V+1]."""
    return torch.cat([rows.flip(-1).cumsum(-1).flip(-1), torch.zeros_like(rows[:, :1])], 1)
