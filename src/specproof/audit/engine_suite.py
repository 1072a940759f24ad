"""The exact engine audit as a suite: rules x drafters x sampling parameters on a tiny transformer."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from specproof.audit.engine_exact import audit_engine
from specproof.audit.enumerate import EnumeratingNoise
from specproof.audit.report import EngineResult
from specproof.backends.hf import HFBackend
from specproof.drafters.eagle3 import Eagle3Drafter
from specproof.drafters.model import ModelDrafter
from specproof.drafters.ngram import NgramDrafter
from specproof.drafters.none import NoDrafter
from specproof.engine.engine import Engine
from specproof.errors import unknown
from specproof.rules import RULES, choose_rule, sound_rules
from specproof.testing.tiny import recomputed_logits, tiny_head, tiny_model
from specproof.tree import Tree
from specproof.types import Drafter, Drawn, SamplingParams

PROMPT = (1, 0, 1)
VOCABULARY = 4
END = 0  # one of the tokens ends the text, so that stopping is in the law too
PARAMS = (
    SamplingParams(temperature=1.0, max_tokens=3),
    SamplingParams(temperature=0.7, top_k=3, top_p=0.9, max_tokens=3),
)
# Trees have more nodes than a chain of their depth; two tokens a row keep the paths countable.
TREE_PARAMS = (
    SamplingParams(temperature=1.0, top_k=2, max_tokens=5),
    SamplingParams(temperature=0.7, top_k=3, top_p=0.7, max_tokens=5),
)
TREE = Tree((-1, -1, 0, 1))


def audit_engines(
    rules: Sequence[str] = (),
    drafters: Sequence[str] = (),
    *,
    architecture: str = "llama",
    params: Sequence[SamplingParams] = (),
    max_tokens: int | None = None,
) -> Iterator[tuple[SamplingParams, EngineResult]]:
    """Audit every combination that is allowed; all rules, drafters and settings if none are named.

    Args:
        rules, drafters, params: what to combine.
        architecture: of the tiny transformers.
        max_tokens: in place of what the settings say; paths grow exponentially.
    """
    lossless = tuple(rule.name for rule in sound_rules())
    for drafter in drafters or tuple(_DRAFTERS):
        for setting in params or (TREE_PARAMS if drafter.startswith("tree") else PARAMS):
            if max_tokens is not None:
                setting = replace(setting, max_tokens=max_tokens)
            elif drafter == "eagle3":  # the first token is not drafted for
                setting = replace(setting, max_tokens=setting.max_tokens + 1)
            for rule in rules or lossless:
                engine = build_engine(drafter, rule, architecture)
                if engine is not None:
                    yield setting, audit_built(engine, (rule, drafter), setting, architecture)


def audit_built(
    engine: Engine, names: tuple[str, str], params: SamplingParams, architecture: str = "llama"
) -> EngineResult:
    """Audit an engine over the suite's tiny target; names are its rule's and its drafter's."""
    model = tiny_model(architecture, VOCABULARY, seed=0)
    replay = f"specproof audit engine --exact --rule {names[0]} --drafter {names[1]} --architecture {architecture}"
    return audit_engine(
        engine, lambda tokens: recomputed_logits(model, tokens), list(PROMPT), params, names=names, replay=replay
    )


def _model_drafter(architecture: str, tree: Tree | int = 2, drawn: Drawn = "iid") -> Drafter:
    # Another seed: a draft that differs from its target everywhere.
    return ModelDrafter(HFBackend(tiny_model(architecture, VOCABULARY, seed=1)), tree, drawn)


def _eagle3(architecture: str) -> Drafter:
    """A head that can draft three of the four tokens, with the target it reads."""
    model = tiny_model(architecture, VOCABULARY, seed=0)
    head = tiny_head(model, [0, 1, 3], seed=1)
    return Eagle3Drafter(head, HFBackend(model, taps=head.config.taps), 2)


_DRAFTERS: dict[str, Callable[[str], Drafter]] = {
    "none": lambda _: NoDrafter(),
    "ngram": lambda _: NgramDrafter(shortest=1),
    "model": _model_drafter,
    "eagle3": _eagle3,
    "tree-iid": lambda architecture: _model_drafter(architecture, TREE),
    "tree-without-replacement": lambda architecture: _model_drafter(architecture, TREE, "without_replacement"),
    "tree-top-and-one": lambda architecture: _model_drafter(architecture, TREE, "top_and_one"),
    "tree-point": lambda architecture: _model_drafter(architecture, TREE, "point"),
}


def build_engine(drafter: str, rule: str, architecture: str = "llama") -> Engine | None:
    """An engine over the suite's tiny models; None for a rule that does not take what the drafter draws."""
    if drafter not in _DRAFTERS:
        raise unknown("drafter", drafter, _DRAFTERS)
    made = _DRAFTERS[drafter](architecture)
    if rule in RULES and not RULES[rule].accepts(made.drawn, made.chains):
        return None
    target = (
        made.target if isinstance(made, Eagle3Drafter) else HFBackend(tiny_model(architecture, VOCABULARY, seed=0))
    )
    chosen = choose_rule(rule, made, allow_lossy=True)
    return Engine(target, made, chosen, eos=(END,), max_batch=256, noise=EnumeratingNoise(), allow_lossy=True)
