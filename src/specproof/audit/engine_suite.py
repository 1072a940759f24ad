"""The exact engine audit as a suite: rules x drafters x sampling parameters on a tiny transformer."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from torch import Tensor

from specproof.audit.engine_exact import audit_engine
from specproof.audit.enumerate import EnumeratingNoise
from specproof.audit.report import EngineResult
from specproof.backends.hf import HFBackend
from specproof.drafters import HEADED
from specproof.drafters.dflash.drafter import DFlashDrafter
from specproof.drafters.eagle3 import Eagle3Drafter
from specproof.drafters.early_exit import EarlyExitDrafter
from specproof.drafters.hybrid import HybridDrafter
from specproof.drafters.medusa.drafter import MedusaDrafter
from specproof.drafters.model import ModelDrafter
from specproof.drafters.ngram import NgramDrafter
from specproof.drafters.none import NoDrafter
from specproof.drafters.past import Past
from specproof.drafters.positions import PositionDrafter
from specproof.drafters.replay import ReplayDrafter
from specproof.drafters.shapes.best_first import BestFirst
from specproof.drafters.shapes.expand import Dynamic, Mixed
from specproof.drafters.suffix import SuffixDrafter
from specproof.drafters.vocabulary import SharedVocabulary
from specproof.engine.engine import Engine
from specproof.errors import unknown
from specproof.rules import RULES, choose_rule, sound_rules
from specproof.testing.tiny import recomputed_logits, tiny_dflash, tiny_head, tiny_medusa, tiny_model
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
MIXED = Mixed(Tree((-1, -1, 0)), Dynamic(2, 2, 4))
# Old texts of the prompts that are audited, those of `audit.drafter.run` before their last token.
PASTS = (
    Past(PROMPT, (2, 1, 3), 0),
    Past((1, 0, 1, 2, 1, 0), (1, 2, 3), 0),
    Past((3,), (1, 2, 3), 0),
)


def _colder(context: list[int], logits: Tensor) -> Tensor:
    """A user's own function: sharper the longer the text is."""
    return logits * (1 + len(context) / 8)


# What looks at the text so far: every such parameter, together with others.
TEXT_PARAMS = (
    SamplingParams(repetition_penalty=1.4, presence_penalty=0.8, min_tokens=2, max_tokens=3),
    SamplingParams(frequency_penalty=-0.6, logit_bias={END: -0.75, 1: 1.5}, top_p=0.8, max_tokens=3),
    SamplingParams(bad_words=((2, 3), (1, 1), (3, 1, 2)), stop_token_ids=(3,), min_tokens=1, max_tokens=3),
    SamplingParams(processors=(_colder,), presence_penalty=-0.7, min_p=0.1, temperature=1.7, max_tokens=3),
)
SETTINGS = {
    "filters": (PARAMS, TREE_PARAMS),
    "text": (TEXT_PARAMS, tuple(replace(params, top_k=2, max_tokens=5) for params in TEXT_PARAMS)),
}


def audit_engines(
    rules: Sequence[str] = (),
    drafters: Sequence[str] = (),
    *,
    architecture: str = "llama",
    params: str | Sequence[SamplingParams] = "filters",
    max_tokens: int | None = None,
) -> Iterator[tuple[SamplingParams, EngineResult]]:
    """Audit every combination that is allowed; all rules and drafters if none are named.

    Args:
        rules, drafters: what to combine.
        params: with which settings, or a name from SETTINGS.
        architecture: of the tiny transformers.
        max_tokens: in place of what the settings say; paths grow exponentially.
    """
    if isinstance(params, str) and params not in SETTINGS:
        raise unknown("params", params, SETTINGS)
    lossless = tuple(rule.name for rule in sound_rules())
    for drafter in drafters or tuple(DRAFTERS):
        named = SETTINGS[params][drafter.startswith("tree")] if isinstance(params, str) else params
        for setting in named:
            if max_tokens is not None:
                setting = replace(setting, max_tokens=max_tokens)
            elif drafter.startswith(("early_exit", *HEADED)):  # the first token is not drafted for
                setting = replace(setting, max_tokens=setting.max_tokens + 1)
            for rule in rules or lossless:
                engine = build_engine(drafter, rule, architecture)
                if engine is not None:
                    result = audit_built(engine, (rule, drafter), setting, architecture)
                    flags = f" --params {params}" if isinstance(params, str) and params != "filters" else ""
                    yield setting, replace(result, replay=result.replay + flags)


def audit_built(
    engine: Engine, names: tuple[str, str], params: SamplingParams, architecture: str = "llama"
) -> EngineResult:
    """Audit an engine over the suite's tiny target; names are its rule's and its drafter's."""
    model = tiny_model(architecture, VOCABULARY, seed=0)
    replay = f"specproof audit engine --exact --rule {names[0]} --drafter {names[1]} --architecture {architecture}"
    return audit_engine(
        engine, lambda tokens: recomputed_logits(model, tokens), list(PROMPT), params, names=names, replay=replay
    )


def _early_exit_drafter(architecture: str) -> Drafter:
    # One of the target's two layers: the same seed, so the weights are the target's.
    return EarlyExitDrafter(HFBackend(tiny_model(architecture, VOCABULARY, seed=0)), 1, 2)


def _model_drafter(architecture: str, tree: Tree | int | Dynamic | Mixed = 2, drawn: Drawn = "iid") -> Drafter:
    # Another seed: a draft that differs from its target everywhere.
    return ModelDrafter(HFBackend(tiny_model(architecture, VOCABULARY, seed=1)), tree, drawn)


def _eagle3(architecture: str) -> Drafter:
    """A head that can draft three of the four tokens, with the target it reads."""
    model = tiny_model(architecture, VOCABULARY, seed=0)
    head = tiny_head(model, [0, 1, 3], seed=1)
    return Eagle3Drafter(head, HFBackend(model, taps=head.config.taps), 2)


def _medusa(architecture: str, tree: int | BestFirst = 2, drawn: Drawn = "iid") -> Drafter:
    model = tiny_model(architecture, VOCABULARY, seed=0)
    head = tiny_medusa(model, [0, 1, 3], seed=1, heads=2)
    return MedusaDrafter(head, HFBackend(model, taps=head.taps), tree, drawn)


def _dflash(architecture: str) -> Drafter:
    model = tiny_model(architecture, VOCABULARY, seed=0)
    head = tiny_dflash(model, [0, 1, 3], seed=1, block=3)
    return DFlashDrafter(head, HFBackend(model, taps=head.taps), 2)


def _other_vocabulary(architecture: str, size: int, shared: dict[int, int] | None = None) -> Drafter:
    own = HFBackend(tiny_model(architecture, size, seed=1))
    spell = None if shared is None else lambda _: (0, 1)  # a token that is not shared is two there
    return ModelDrafter(SharedVocabulary(own, VOCABULARY, shared, spell), 2)


DRAFTERS: dict[str, Callable[[str], Drafter]] = {
    "none": lambda _: NoDrafter(),
    "ngram": lambda _: NgramDrafter(shortest=1),
    "suffix": lambda _: SuffixDrafter(),
    "suffix-chain": lambda _: SuffixDrafter(branching=False),
    "replay": lambda _: ReplayDrafter(PASTS, VOCABULARY, rows=False, shared=True),
    "early_exit": _early_exit_drafter,
    "model": _model_drafter,
    "eagle3": _eagle3,
    "hybrid": lambda architecture: HybridDrafter(
        NgramDrafter(shortest=1), _model_drafter(architecture), VOCABULARY, least=1
    ),
    "hybrid-dynamic": lambda architecture: HybridDrafter(
        NgramDrafter(shortest=1), _model_drafter(architecture, Dynamic(2, 2, 4), "point"), VOCABULARY, least=2
    ),
    "hybrid-mixed": lambda architecture: HybridDrafter(
        NgramDrafter(shortest=1), _model_drafter(architecture, MIXED, "without_replacement"), VOCABULARY, least=2
    ),
    "medusa": _medusa,
    "medusa-best-first": lambda architecture: _medusa(architecture, BestFirst(3), "point"),
    "dflash": _dflash,
    "model-smaller-vocabulary": lambda architecture: _other_vocabulary(architecture, VOCABULARY - 1),
    "intersection": lambda architecture: _other_vocabulary(architecture, 5, {0: 3, 1: 0, 3: 4}),
    "tree-iid": lambda architecture: _model_drafter(architecture, TREE),
    "tree-without-replacement": lambda architecture: _model_drafter(architecture, TREE, "without_replacement"),
    "tree-top-and-one": lambda architecture: _model_drafter(architecture, TREE, "top_and_one"),
    "tree-point": lambda architecture: _model_drafter(architecture, TREE, "point"),
    "tree-dynamic": lambda architecture: _model_drafter(architecture, Dynamic(2, 2, 4), "point"),
}


def build_engine(drafter: str, rule: str, architecture: str = "llama") -> Engine | None:
    """An engine over the suite's tiny models; None for a rule that does not take what the drafter draws."""
    if drafter not in DRAFTERS:
        raise unknown("drafter", drafter, DRAFTERS)
    made = DRAFTERS[drafter](architecture)
    if rule in RULES and not RULES[rule].accepts(made.drawn, made.chains):
        return None
    target = (
        made.target
        if isinstance(made, (EarlyExitDrafter, Eagle3Drafter, PositionDrafter))
        else HFBackend(tiny_model(architecture, VOCABULARY, seed=0))
    )
    chosen = choose_rule(rule, made, allow_lossy=True)
    return Engine(target, made, chosen, eos=(END,), max_batch=256, noise=EnumeratingNoise(), allow_lossy=True)
