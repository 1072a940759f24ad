"""The audit: texts of the model itself, read again in every way that is asked, row by row."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from hashlib import sha256
from typing import Any

import torch
from torch import Tensor

from specproof.audit.numerics.blocks import Text, read
from specproof.audit.numerics.kept import backend_with
from specproof.audit.numerics.moved import Moved, compare
from specproof.audit.numerics.result import Measured, NumericsResult, Setting
from specproof.audit.white.forcing import Reference
from specproof.engine.engine import Engine
from specproof.errors import SpecproofError
from specproof.types import Backend, SamplingParams

# All rows of two dtypes are held at once: two of these for each token of the vocabulary.
MOST_TOKENS = 4096
# Positions compared at a time, in double precision.
_PORTION = 16


@dataclass(frozen=True)
class Ways:
    """What is combined: every kv with every batch with every width.

    Attributes:
        kv: names from `kept.KV`; "model" keeps what the model computes.
        batches: texts in a forward.
        widths: rows of each text in a forward; 1 is plain decoding, k + 1 verifies k drafted tokens.
        tokens: positions to compare, over all texts.
        length: tokens of a text.
    """

    kv: tuple[str, ...] = ("model",)
    batches: tuple[int, ...] = (1, 4)
    widths: tuple[int, ...] = (1, 2, 5, 9, 16)
    tokens: int = 512
    length: int = 48

    def __post_init__(self) -> None:
        def need(ok: bool, name: str, allowed: str) -> None:
            if not ok:
                raise SpecproofError(f"{name}={getattr(self, name)!r} is not allowed: give {allowed}")

        need(bool(self.kv), "kv", "at least one")
        need(bool(self.batches) and min(self.batches) >= 1, "batches", "whole numbers >= 1")
        need(bool(self.widths) and min(self.widths) >= 1 and max(self.widths) <= 64, "widths", "1 to 64 rows")
        need(1 <= self.tokens <= MOST_TOKENS, "tokens", f"1 to {MOST_TOKENS}: all rows are held at once")
        need(1 <= self.length <= 512, "length", "1 to 512 tokens a text")

    @property
    def settings(self) -> list[Setting]:
        """All of them, plain decoding of each kv first."""
        wide = [
            Setting(k, b, w) for k in self.kv for b in sorted(set(self.batches)) for w in sorted(set(self.widths))
        ]
        return list(dict.fromkeys([s.plain for s in wide] + wide))


def audit_numerics(
    model: Any,
    reference: Reference,
    prompts: Sequence[Sequence[int]],
    params: SamplingParams,
    ways: Ways | None = None,
    *,
    names: tuple[str, str, str] = ("model", "", "float32"),
    make: Callable[[Any, str], Backend] = backend_with,
    announce: Callable[[str], None] | None = None,
    replay: str = "",
) -> NumericsResult:
    """Compare rows of a transformers model, run in many ways, with a reference's over the same texts.

    Args:
        model: in the dtype that is audited.
        reference: from tokens and a place to logits, as by `white.forcing.reference_for`.
        prompts: tokens of each; a text of the model's own follows each in turn.
        params: what rows are made under; its seed is the texts'.
        ways: how the model is run.
        names: of the model, its dtype and the reference's, for the report.
        make: a fresh backend for the model and a kv; another one than specproof's own can be audited.
        announce: told how it goes.
        replay: command for the report.
    """
    ways, tell = ways or Ways(), announce or (lambda _: None)
    own = sha256(repr([list(prompt) for prompt in prompts]).encode()).hexdigest()[:16]
    plan = {"ways": asdict(ways), "names": names, "params": repr(params), "prompts": f"{len(prompts)}, {own}"}
    texts = list(_texts(model, prompts, params, ways))
    if max(ways.batches) > len(texts):
        raise SpecproofError(
            f"batch {max(ways.batches)} needs as many texts, and {ways.tokens} tokens are {len(texts)} of "
            f"{ways.length}: give more tokens, shorter texts or a smaller batch"
        )
    tell(f"{sum(len(text.output) for text in texts)} positions in {len(texts)} texts")
    expected = [reference(text.start.tokens + text.output, len(text.start.tokens)) for text in texts]
    plain: dict[str, list[Tensor]] = {}
    measured = []
    for setting in ways.settings:
        logits = _logits(make(model, setting.kv), texts, setting)
        plain.setdefault(setting.kv, logits)  # plain decoding comes first
        each = (_moved(texts, logits, others) for others in (expected, plain[setting.kv]))
        measured.append(Measured(setting, *each))
        tell(f"{setting}: TV from the reference {measured[-1].reference.tv.mean():.2g} on average")
    return NumericsResult(*names, tuple(measured), plan, replay)


def _texts(model: Any, prompts: Sequence[Sequence[int]], params: SamplingParams, ways: Ways) -> Iterator[Text]:
    """Texts drawn without speculation; none of them is empty."""
    engine = Engine(backend_with(model), "none", max_batch=1)
    made = number = 0
    while made < ways.tokens:
        own = replace(params, seed=(params.seed or 0) + number, max_tokens=min(ways.length, ways.tokens - made))
        prompt = prompts[number % len(prompts)]
        request, start = (engine.requests(prompt, own)[0] for _ in range(2))
        start.read(len(start.unread))
        for _ in engine.run([request]):
            pass
        if not request.sequence.output:
            raise SpecproofError(f"no tokens came out: {request.error or 'the prompt fills the context'}")
        made += len(request.sequence.output)
        number += 1
        yield Text(start.sequence, request.sequence.output)


def _logits(backend: Backend, texts: Sequence[Text], setting: Setting) -> list[Tensor]:
    """Logits [n, V] of each text."""
    found = []
    for first in range(0, len(texts), setting.batch):
        group = texts[first : first + setting.batch]
        parts: list[list[Tensor]] = [[] for _ in group]
        for block in read(backend, group, setting.width):
            parts[block.text].append(block.logits)
        found += [torch.cat(part) for part in parts]
    return found


def _moved(texts: Sequence[Text], found: Sequence[Tensor], others: Sequence[Tensor]) -> Moved:
    parts = []
    for text, logits, other in zip(texts, found, others, strict=True):
        for first in range(0, len(logits), _PORTION):
            here = slice(first, first + _PORTION)
            parts.append(compare(text, first, logits[here], other[here]))
    return Moved.joined(parts)
