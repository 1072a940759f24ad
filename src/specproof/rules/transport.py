"""Optimal transport: at each node the law that accepts one of the children as often as any lossless rule can."""

from torch import Tensor

from specproof.rules.flow import Plan, best_plan
from specproof.rules.rows import ratio
from specproof.rules.selector import best_selector, select
from specproof.rules.topdown import Offers, Verdict, top_down
from specproof.types import Draft, Law

_TINY = 1e-15  # less than rounding makes of a whole


def transport(target: Tensor, draft: Draft) -> Law:
    """Law of optimal multi-draft verification, node by node, on trees; target is [B, N+1, V].

    At a node the probability to accept a child is 1 + min over sets H of [target(H) - P(all children in H)],
    which is the optimum; further down it is the best for each node by itself, not for the whole tree.
    Independent children: for any vocabulary and number of children; above `selector.LEVELS` tokens a little
    below the optimum. Without replacement: small vocabularies only, see `flow.best_plan`.

    Source: the optimum as transport, Sun et al. 2023 (2310.15141), and in closed form, Hu et al. 2025
    (2502.18779); one token is chosen, then tested, as in Khisti et al. 2024 (2410.18234). The choice among
    independent draws is our own, see `selector`.

    Raises:
        SpecproofError: too many sets may be drawn without replacement.
    """
    return top_down(target, draft, _judge_independent if draft.drawn == "iid" else _judge_distinct)


def _judge_independent(offers: Offers) -> Verdict:
    target, drawn = offers.target.double(), offers.drawn.double()
    selector = best_selector(target, drawn, offers.present.sum(-1))
    chosen = select(selector, offers.tokens, offers.present)
    # The chosen token is one draft of a known law.
    accept = ratio(target.gather(1, offers.tokens), selector.law.gather(1, offers.tokens)).clamp(max=1)
    parts = Verdict(chosen * accept, (chosen * (1 - accept)).sum(-1), selector.law)
    return Verdict(*(part.to(offers.target.dtype) for part in parts))


def _judge_distinct(offers: Offers) -> Verdict:
    taken: list[list[float]] = []
    given: list[list[float]] = []
    plans: dict[tuple[object, ...], Plan] = {}
    rows = zip(offers.target.tolist(), offers.drawn.tolist(), offers.tokens.tolist(), strict=True)
    for m, (target, drawn, tokens) in enumerate(rows):
        count = int(offers.present[m].sum())
        key = (tuple(target), tuple(drawn), count)
        if key not in plans:
            plans[key] = best_plan(target, drawn, count, _TINY)
        # Tokens without mass only fill places after the row ran out of others.
        real = [token for token in tokens[:count] if drawn[token] > 0]
        shares = plans[key].taken.get(tuple(sorted(real)), {})
        taken.append([shares.get(token, 0.0) if place < count else 0.0 for place, token in enumerate(tokens)])
        given.append(plans[key].given)
    chances = offers.target.new_tensor(taken)
    return Verdict(chances, (1 - chances.sum(-1)).clamp(min=0), offers.target.new_tensor(given))
