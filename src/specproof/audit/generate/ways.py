"""The ways in which `generate` speculates: what it is called with, and what it drafts from."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from specproof.errors import SpecproofError
from specproof.sampling import warp_batch
from specproof.tree import Tree
from specproof.types import Draft, TokenSequence

# From a sequence before its first token and an output to the row that a draft would be drawn from, by place.
DraftRows = Callable[[TokenSequence, list[int]], dict[int, Tensor]]


@dataclass(frozen=True)
class Way:
    """A way to speculate.

    Attributes:
        name: in words.
        options: further arguments of `generate`.
        rows: what is drafted from; None if that is not known. Bets see a fault of drafts by it.
    """

    name: str
    options: Mapping[str, Any] = field(default_factory=dict)
    rows: DraftRows | None = None


def assistant(model: Any) -> Way:
    """A smaller model with the same tokens; it drafts under the target's sampling parameters."""
    return Way(f"assistant model {_name(model)}", {"assistant_model": model}, _by_model(model))


def early_exit(model: Any, layers: int) -> Way:
    """The target's first layers and its head.

    Raises:
        SpecproofError: more layers than there are.
    """
    if not 1 <= layers < model.config.num_hidden_layers:
        raise SpecproofError(
            f"--early-exit {layers} is not allowed: the model has {model.config.num_hidden_layers} layers, "
            "give fewer"
        )
    plain = _by_model(model)

    def rows(start: TokenSequence, output: list[int]) -> dict[int, Tensor]:
        with _cut(model, layers):
            return plain(start, output)

    return Way(f"exit after {layers} layers", {"assistant_early_exit": layers}, rows)


def prompt_lookup(model: Any, nodes: int) -> Way:
    """What followed the last tokens the last time; a draft is a point, looked up afresh for every token here."""
    if nodes < 1:
        raise SpecproofError(f"--prompt-lookup {nodes} is not allowed: give 1 token or more")
    from transformers.generation.candidate_generator import PromptLookupCandidateGenerator

    size = model.config.get_text_config().vocab_size

    def rows(start: TokenSequence, output: list[int]) -> dict[int, Tensor]:
        found = {}
        for at in range(len(output)):
            before = torch.tensor([start.tokens + output[:at]])
            lookup = PromptLookupCandidateGenerator(
                num_output_tokens=1, max_matching_ngram_size=2, max_length=before.shape[1] + 2, vocab_size=size
            )
            drafted = lookup.get_candidates(before)[0][0, before.shape[1] :].tolist()
            if drafted:
                found[at] = torch.nn.functional.one_hot(torch.tensor(drafted[0]), size).double()
        return found

    return Way(f"prompt lookup of {nodes} tokens", {"prompt_lookup_num_tokens": nodes}, rows)


def custom(function: Callable[..., Any], options: Mapping[str, Any], draft: Any = None) -> Way:
    """A decoding loop of somebody's own, and its arguments.

    Args:
        function, options: of `generate`.
        draft: a model with the target's tokens; bets get its rows. The nearer it is to what the loop drafts with,
            the more they see.
    """
    name = f"custom_generate={getattr(function, '__qualname__', type(function).__name__)}"
    rows = None if draft is None else _by_model(draft)
    name += "" if draft is None else f", bets by the rows of {_name(draft)}"
    return Way(name, {"custom_generate": function, **options}, rows)


def _name(model: Any) -> str:
    return str(model.name_or_path or type(model).__name__)


def _by_model(model: Any) -> DraftRows:
    @torch.inference_mode()
    def rows(start: TokenSequence, output: list[int]) -> dict[int, Tensor]:
        text, count = start.tokens + output, len(output)
        ids = torch.tensor([text[:-1]], device=model.device)
        logits = model(input_ids=ids, use_cache=False).logits[0, -count:].cpu().double()
        draft = Draft((Tree.chain(count - 1),), torch.tensor([output[:-1]]).long(), None, "point")
        return dict(
            enumerate(warp_batch(logits[None], [replace(start, tokens=list(start.tokens))], draft).rows[0])
        )

    return rows


@contextmanager
def _cut(model: Any, layers: int) -> Iterator[None]:
    """As transformers does it: the number of layers in the configuration is what the forward goes by."""
    whole = model.base_model.config.num_hidden_layers
    model.base_model.config.num_hidden_layers = layers
    try:
        yield
    finally:
        model.base_model.config.num_hidden_layers = whole
