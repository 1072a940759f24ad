"""The rows that a finished text should have been drawn from, computed again from its tokens alone.

The whole text goes through the model once more, in one pass, without cache, tree mask or batch. So nothing that
the engine got wrong can be in these rows but the model itself and the sampling parameters' meaning.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from specproof.audit.white.emission import Emissions, Flags, Floats
from specproof.audit.white.record import Places
from specproof.backends.hf import HFBackend
from specproof.backends.table import TableBackend
from specproof.drafters.none import empty_draft
from specproof.errors import NumericsError, SpecproofError
from specproof.sampling import fold, no_law, warp_batch
from specproof.stopping import commit
from specproof.tree import Tree
from specproof.types import Backend, Draft, TokenSequence

# From a text and a place in it to the logits [n, V] that each token from there on was drawn from.
Reference = Callable[[list[int], int], Tensor]
# Rows in double precision are held for this many tokens at a time.
PORTION = 16


class Scored(NamedTuple):
    """A portion of a text, scored.

    Attributes:
        emissions: what can be bet on.
        edge: tokens without mass that a nudge of their logit by the margin brings inside a filter: left out.
        gaps: [n] largest logit minus the token's.
        runners_up: [n] largest logit minus the second largest.
        mass: [n] probability of each token, those at an edge included; empty where nobody asked.
    """

    emissions: Emissions
    edge: int
    gaps: Floats
    runners_up: Floats
    mass: Floats = np.zeros(0)


class Conditions(NamedTuple):
    """What a text is scored under.

    Attributes:
        places: where its tokens stood; None for a run without drafts.
        noise: [n] uniform numbers.
        margin: how far rounding moves a logit.
    """

    places: Places | None
    noise: Floats
    margin: float


def reference_for(target: Backend) -> Reference:
    """The plainest way to score a text with a backend's model.

    Raises:
        SpecproofError: a backend that is neither HFBackend nor TableBackend; give `reference` yourself.
    """
    if isinstance(target, HFBackend):
        return lambda tokens, first: _whole_pass(target, tokens, first)
    if isinstance(target, TableBackend):
        model = target.model
        return lambda tokens, first: torch.stack(
            [model.row(tokens[:at]) for at in range(first, len(tokens))]
        ).log()
    raise SpecproofError(
        f"no way to score texts without {type(target).__name__} is known: give reference=, a function from tokens "
        "and a place to logits"
    )


@torch.inference_mode()
def _whole_pass(target: HFBackend, tokens: list[int], first: int) -> Tensor:
    ids = torch.tensor([tokens[:-1]], device=target.model.device)
    logits: Tensor = target.model(input_ids=ids, use_cache=False, logits_to_keep=len(tokens) - first).logits[0]
    return logits.cpu()


def score(start: TokenSequence, output: list[int], logits: Tensor, under: Conditions) -> list[Scored]:
    """Score an output, some tokens at a time.

    Args:
        start: the sequence as it was before its first token.
        output: its tokens.
        logits: [n, V] of the reference.
        under: where the tokens stood, and the rest.
    """
    return [_portion(start, output, logits, under, first) for first in range(0, len(output), PORTION)]


def _portion(start: TokenSequence, output: list[int], logits: Tensor, under: Conditions, first: int) -> Scored:
    tokens = output[first : first + PORTION]
    count, here = len(tokens), slice(first, first + len(tokens))
    sequence = replace(start, tokens=start.tokens + output[:first])
    draft = Draft((Tree.chain(count - 1),), torch.tensor([tokens[:-1]], dtype=torch.long), None, "point")
    exact = logits[here].double()
    target = _rows(exact, sequence, draft)
    drafts, strata = np.zeros_like(target), np.zeros(count, dtype=np.int64)
    if under.places is not None:
        strata = under.places.strata[here]
        for at in range(count):
            if (row := under.places.rows.get(first + at)) is not None:
                drafts[at] = row.double() / row.double().sum()
    emissions = Emissions(np.array(tokens), target, drafts, under.noise[here], strata, np.arange(count) > 0)
    scores = fold(exact[None], [sequence], draft)[0]
    top = scores.topk(2).values
    at_token = scores[torch.arange(count), torch.tensor(tokens)]
    edge = _edges(emissions, exact, (sequence, draft), under.margin)
    gaps, runners_up = (top[:, 0] - at_token).numpy(), (top[:, 0] - top[:, 1]).numpy()
    return Scored(emissions.some(~edge), int(edge.sum()), gaps, runners_up, emissions.mass)


def rows_along(start: TokenSequence, output: list[int], logits: Tensor) -> Tensor:
    """[n, V] what a model's logits [n, V] come to under a text's parameters, where each of its tokens stands.

    Rows without a law, where everything that this model likes is forbidden, come out uniform.
    """
    drafted = Draft((Tree.chain(len(output) - 1),), torch.tensor([output[:-1]], dtype=torch.long), None, "point")
    return warp_batch(logits.double()[None], [replace(start, tokens=list(start.tokens))], drafted).rows[0]


def whole_row(sequence: TokenSequence, logits: Tensor) -> Floats:
    """[V] the law of the token after a sequence, from the reference's logits [V] there."""
    return np.asarray(_rows(logits.double()[None], sequence, empty_draft(1))[0])


def nudged_row(sequence: TokenSequence, logits: Tensor, token: int, margin: float) -> Floats:
    """[V] the same, with one token's logit raised by a margin."""
    raised = logits.double().clone()
    raised[token] += margin
    return whole_row(sequence, raised)


def _rows(logits: Tensor, sequence: TokenSequence, draft: Draft) -> Floats:
    rows, broken = warp_batch(logits[None], [sequence], draft)
    if bool(broken.any()):
        raise NumericsError(f"the reference gives {no_law(sequence)}")
    found: Floats = rows[0].numpy()
    return np.asarray(found / found.sum(1, keepdims=True))


def _edges(emissions: Emissions, logits: Tensor, where: tuple[TokenSequence, Draft], margin: float) -> Flags:
    """[n] tokens without mass that have some once their own logit is raised by `margin`."""
    missing = emissions.mass <= 0
    if not missing.any() or margin == 0:
        return np.zeros(len(emissions), dtype=bool)
    raised = logits.clone()
    raised[torch.arange(len(raised)), torch.from_numpy(emissions.tokens)] += margin
    return np.asarray(missing & (emissions.at_token(_rows(raised, *where)) > 0))


def ends_right(start: TokenSequence, output: list[int], finish: str | None, context: int) -> bool:
    """Whether a text ended where committing its tokens one by one ends it, and for the same reason.

    Stop strings are not looked for again; a text with some may end earlier.
    """
    again = replace(start, tokens=list(start.tokens))
    for at, token in enumerate(output):
        commit(again, [token], context)
        if again.finish_reason is not None and at + 1 < len(output):
            return False
    early = bool(start.params.stop) and finish == "stop"
    return early or again.finish_reason == finish
