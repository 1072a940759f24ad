"""Texts of `generate` for an audit, with speculation and without, and how they ended."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch

from specproof.audit.generate.watch import Watched
from specproof.audit.generate.ways import Way
from specproof.audit.white.emission import UNDRAFTED
from specproof.audit.white.forcing import ends_right
from specproof.audit.white.gathering import PANEL_PLAIN, PLAIN, Gathering, Text, Texts
from specproof.audit.white.record import Places
from specproof.engine.engine import Engine
from specproof.errors import SpecproofError
from specproof.types import SamplingParams, TokenSequence


@dataclass
class GenerateAudit(Gathering):
    """An audit of `generate` under way; see `Gathering`.

    Attributes:
        model: transformers'.
        way: how it speculates.
        engine: ours, on the same model, without speculation: begins sequences.
        ends: tokens that end a text.
        watched: counts what is drafted and accepted, while it speculates.
    """

    model: Any = field(kw_only=True)
    way: Way = field(kw_only=True)
    engine: Engine = field(kw_only=True)
    ends: Sequence[int] = field(kw_only=True)
    watched: Watched = field(kw_only=True)

    def start(self, prompt: Sequence[int], params: SamplingParams) -> TokenSequence:
        """See `Gathering.start`."""
        request = self.engine.requests(list(prompt), params)[0]
        request.read(len(request.unread))
        return request.sequence

    def running(self, use: int) -> Texts:
        """See `Gathering.running`."""
        most = self.plan.control if use == PLAIN else self.plan.tokens
        made = number = 0
        seeds = self.plan.seeds(use, most)
        while made < most:
            params = replace(self.params, seed=seeds[number])
            text = self._text(number % len(self.prompts), self.prompts, params, use == PLAIN)
            if not text.output:
                raise SpecproofError(f"generate gave no token after prompt {text.prompt}; give another --prompt")
            number, made = number + 1, made + len(text.output)
            yield text

    def repeated(self, params: SamplingParams, use: int) -> Texts:
        """See `Gathering.repeated`."""
        seeds = iter(self.plan.seeds(use, len(self.prefixes) * self.plan.draws))
        for number in range(len(self.prefixes)):
            for _ in range(self.plan.draws):
                yield self._text(number, self.prefixes, replace(params, seed=next(seeds)), use == PANEL_PLAIN)

    def _text(self, number: int, prompts: Sequence[Sequence[int]], params: SamplingParams, plain: bool) -> Text:
        """One text of `generate`; the parameters hold its seed, torch's own state is left as it was."""
        start = self.start(prompts[number], params)
        ids = torch.tensor([start.tokens], device=self.model.device)
        options = {} if plain else dict(self.way.options)
        self.watched.forget()
        with torch.random.fork_rng():
            torch.manual_seed(params.seed or 0)
            made = self.model.generate(
                ids, attention_mask=torch.ones_like(ids), **_arguments(params, self.ends), **options
            )
        tokens = made if isinstance(made, torch.Tensor) else made.sequences
        output = tokens[0, ids.shape[1] :].tolist()
        if plain:
            return Text(number, start, output)
        if said := getattr(made, "statistics", None):
            self.watched.told = (said[0].drafted, said[0].accepted)
        self._count(start, output)
        # Where drafts begin is not known; their rows are, as far as the way tells them.
        strata = np.full(len(output), UNDRAFTED)
        if self.way.rows is None:
            return Text(number, start, output, Places(strata, {}, 1, hidden=1))
        rows, size = self.way.rows(start, output), self.engine.target.vocabulary
        if wrong := [len(row) for row in rows.values() if len(row) != size]:
            raise SpecproofError(
                f"the draft model has {wrong[0]} tokens and the target {size}; give one with the same tokens"
            )
        return Text(number, start, output, Places(strata, rows, len(rows)))

    def _count(self, start: TokenSequence, output: list[int]) -> None:
        """Count a text with speculation, and whether it ended where it should."""
        counts, watched = self.counts, self.watched
        ended = "stop" if output and output[-1] in self.ends else "length"
        watched.text(len(output))
        counts.texts, counts.drafted, counts.accepted = counts.texts + 1, watched.drafted, watched.accepted
        counts.misended += not ends_right(start, output, ended, self.engine.target.context)


def _arguments(params: SamplingParams, ends: Sequence[int]) -> dict[str, Any]:
    """The arguments of `generate` that mean what the parameters mean."""
    asked: dict[str, Any] = {"max_new_tokens": params.max_tokens, "repetition_penalty": params.repetition_penalty}
    asked |= {"eos_token_id": list(ends) or None, "pad_token_id": ends[0] if ends else 0}
    if params.min_tokens:
        asked["min_new_tokens"] = params.min_tokens
    if params.temperature == 0:
        return asked | {"do_sample": False}
    asked |= {"do_sample": True, "temperature": params.temperature, "top_k": params.top_k, "top_p": params.top_p}
    return asked | ({"min_p": params.min_p} if params.min_p else {})
