"""Texts of an earlier policy, kept to be drafted again: tokens, and if wanted the rows they were drawn from.

What is stored of a row is its likeliest tokens, rounded. That is another law than the token was drawn from, and a
rule has to be given the law that its draft was really drawn from. So each token is thinned: it may be drafted with
a chance that makes it a draw from exactly the stored law, given that it is drafted at all. Where it is not, the
draft ends, and the target's own row decides.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from specproof.errors import SpecproofError

_FORM = "specproof replay 1"


class Kept(NamedTuple):
    """What is stored of a row, and of the token that was drawn from it.

    Attributes:
        ids: [m] int32 tokens.
        values: [m] their probabilities, as they are stored; the law is these divided by their sum in float64.
        chance: that the drawn token may be drafted; 0 where it is none of `ids`.
    """

    ids: Tensor
    values: Tensor
    chance: float


@dataclass(frozen=True, eq=False)
class Past:
    """A text of an earlier policy.

    Attributes:
        prompt, tokens: of the text; the one that ended it is the last.
        seed: what its noise was keyed by.
        rows: of each token, what is stored of the row it was drawn from; empty if only tokens are known.
    """

    prompt: tuple[int, ...]
    tokens: tuple[int, ...]
    seed: int
    rows: tuple[Kept, ...] = ()

    def __post_init__(self) -> None:
        if len(self.rows) not in (0, len(self.tokens)):
            raise SpecproofError(
                f"{len(self.rows)} rows for {len(self.tokens)} tokens; give one for each token, or none"
            )


def kept(row: Tensor, token: int, most: int = 64, dtype: torch.dtype = torch.float16) -> Kept:
    """What is stored of a row [V] and of the token that was drawn from it.

    Args:
        row: the law, after all sampling parameters; sums to 1.
        token: what was drawn.
        most: how many of the likeliest tokens are stored; 0 for all that have mass.
        dtype: of the stored probabilities.
    """
    law = row.double()
    found = law.topk(min(most, len(law)) if most else len(law))
    inside = found.values / found.values.sum()
    values = inside.to(dtype)
    # Subnormal numbers are rounded too coarsely: they would make every token rarer.
    stored = values >= torch.finfo(dtype).smallest_normal
    ids, values, inside = found.indices[stored], values[stored], inside[stored]
    rounded = values.double() / values.double().sum()
    shares = rounded / inside
    at = (ids == token).nonzero()[:, 0]
    chance = float(shares[at[0]] / shares.max()) if len(at) else 0.0
    return Kept(ids.int(), values, min(1.0, chance))


def law_of(row: Kept, vocabulary: int, dtype: torch.dtype) -> Tensor:
    """[V] the law that is stored."""
    values = row.values.double()
    return (
        torch.zeros(vocabulary, dtype=torch.float64).scatter_(0, row.ids.long(), values / values.sum()).to(dtype)
    )


def save_pasts(pasts: Sequence[Past], path: str | Path) -> None:
    """Write texts to a safetensors file; all with rows, or none.

    Raises:
        SpecproofError: some have rows and others do not, or the file cannot be written.
    """
    if len({bool(past.rows) for past in pasts if past.tokens}) > 1:
        raise SpecproofError("some texts have rows and others do not; save them in two files")
    rows = [row for past in pasts for row in past.rows]
    tensors = {
        "prompts": _whole(token for past in pasts for token in past.prompt),
        "prompt_sizes": _whole(len(past.prompt) for past in pasts),
        "tokens": _whole(token for past in pasts for token in past.tokens),
        "sizes": _whole(len(past.tokens) for past in pasts),
        # Seeds have 64 bits without a sign.
        "seeds": torch.tensor([past.seed - (past.seed >> 63 << 64) for past in pasts], dtype=torch.int64),
    }
    if rows:
        tensors |= {
            "row_sizes": _whole(len(row.ids) for row in rows),
            "ids": torch.cat([row.ids for row in rows]),
            "values": torch.cat([row.values for row in rows]),
            "chances": torch.tensor([row.chance for row in rows], dtype=torch.float64),
        }
    try:
        save_file(tensors, str(path), {"form": _FORM})
    except (OSError, SafetensorError) as error:
        raise SpecproofError(f"cannot write {path}: {error}; name a file in an existing folder") from None


def load_pasts(path: str | Path) -> list[Past]:
    """Texts from such a file.

    Raises:
        SpecproofError: there is none, or it is of another form.
    """
    try:
        with safe_open(str(path), "pt") as file:
            form = (file.metadata() or {}).get("form")
            found = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (it is no dictionary)
    except (OSError, SafetensorError) as error:
        raise SpecproofError(f"cannot read {path}: {error}; name a file of remembered rollouts") from None
    if form != _FORM:
        raise SpecproofError(f"{path} holds {form!r} and not {_FORM!r}; write it with save_pasts")
    rows: list[Kept] = []
    if "chances" in found:
        ids, values = (_split(found[name], found["row_sizes"]) for name in ("ids", "values"))
        rows = [Kept(*each) for each in zip(ids, values, found["chances"].tolist(), strict=True)]
    pasts, first = [], 0
    texts = zip(
        _split(found["prompts"], found["prompt_sizes"]),
        _split(found["tokens"], found["sizes"]),
        found["seeds"].tolist(),
        strict=True,
    )
    for prompt, tokens, seed in texts:
        own = tuple(rows[first : first + len(tokens)])
        first += len(tokens)
        pasts.append(Past(tuple(prompt.tolist()), tuple(tokens.tolist()), seed % 2**64, own))
    return pasts


def _whole(numbers: Iterable[int]) -> Tensor:
    return torch.tensor(list(numbers), dtype=torch.int32)


def _split(values: Tensor, sizes: Tensor) -> Any:
    return values.split(sizes.tolist())
