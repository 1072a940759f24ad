"""The p-contract: the law used in speculation is the law without it, under every pair of sampling parameters."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from specproof.audit.parameters import lattice
from specproof.audit.parameters.compared import Compared, ParametersResult
from specproof.audit.parameters.rows import compare_rows
from specproof.audit.parameters.tiny import DRAFTS, compare_tiny
from specproof.backends.hf import HFBackend
from specproof.errors import SpecproofError, unknown
from specproof.testing.tiny import tiny_model

ENGINES = ("specproof", "transformers")
_TINY, _END = 8, 0
_TINY_PROMPTS = ([1, 2, 3, 1, 2], [4, 5, 4, 5, 4])


class Loaded(NamedTuple):
    """A real model for the audit.

    Attributes:
        name: for the report.
        model: of transformers.
        prompts: tokens of each; what repeats in them is what parameters are about.
        ends: tokens that end a text.
    """

    name: str
    model: Any
    prompts: Sequence[Sequence[int]]
    ends: Sequence[int]

    @property
    def common(self) -> list[int]:
        """The tokens that occur most often in the prompts."""
        counts = Counter(token for prompt in self.prompts for token in prompt if token not in self.ends)
        if len(counts) < 3:
            raise SpecproofError(f"prompts of {len(counts)} different tokens: give some with three or more")
        return [token for token, _ in counts.most_common(6)]


def audit_parameters(
    engine: str = "specproof",
    loaded: Loaded | None = None,
    *,
    announce: Callable[[str], None] | None = None,
    replay: str = "",
) -> ParametersResult:
    """Audit the law under sampling parameters, on tiny models and on a real one.

    Args:
        engine: one of ENGINES.
        loaded: a real model; without one, tiny models only.
        announce: told how it goes.
        replay: command for the report.
    """
    if engine not in ENGINES:
        raise unknown("engine", engine, ENGINES)
    tell = announce or (lambda _: None)
    compared = []
    for each in _ours(loaded) if engine == "specproof" else _transformers(loaded):
        compared.append(each)
        if not each.ok:
            tell(str(each))
        elif len(compared) % 20 == 0:
            tell(f"{len(compared)} settings, none with another law so far" if all(c.ok for c in compared) else "…")
    plan = {"engine": engine, "model": loaded and loaded.name, "drafts": DRAFTS, "tiny": _TINY_PROMPTS}
    where = "tiny models" + (f" and {loaded.name}" if loaded else "")
    return ParametersResult(f"sampling parameters of {engine} on {where}", tuple(compared), plan, replay)


def _ours(loaded: Loaded | None) -> Iterator[Compared]:
    yield from compare_tiny()
    if loaded is not None:
        settings = lattice.covering(lattice.values_for(loaded.common, min(loaded.ends, default=loaded.common[3])))
        palette = [*loaded.common, *loaded.ends]
        yield from compare_rows(HFBackend(loaded.model), loaded.prompts, settings, palette, loaded.ends)


def _transformers(loaded: Loaded | None) -> Iterator[Compared]:
    from specproof.audit.parameters.foreign import compare_generate, settings_for

    model, draft = (tiny_model("llama", _TINY, seed=seed) for seed in (0, 1))
    for each in (model, draft):
        each.generation_config.eos_token_id = each.generation_config.pad_token_id = _END
    settings = settings_for((1, 2, 3), wide=False)
    for name, assistance in (
        ("assistant_model, tiny", {"assistant_model": draft}),
        ("prompt_lookup_num_tokens, tiny", {"prompt_lookup_num_tokens": 3}),
    ):
        yield from compare_generate(model, _TINY_PROMPTS, settings, assistance, name)
    if loaded is not None:
        settings = settings_for(loaded.common)
        assistance = {"prompt_lookup_num_tokens": 3}
        name = "prompt_lookup_num_tokens"
        yield from compare_generate(loaded.model, loaded.prompts[:1], settings, assistance, name)
