"""The soak: random requests that come, go and fail at random, each held to naive decoding.

Where the text is a function of the seed (rule "coupling", temperature 0) it has to be that very text. Elsewhere
each emitted token is compared with the target's exact row, pooled over all requests that nobody meant to
cancel: where a step ends may depend on what would have come after it, so texts cut between steps have no
simple law.
"""

import gc
import random
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.stats import kstest, norm

from specproof.backends.hf import HFBackend
from specproof.drafters.model import ModelDrafter
from specproof.drafters.ngram import NgramDrafter
from specproof.drafters.none import NoDrafter
from specproof.engine.engine import Engine
from specproof.engine.requests import Request
from specproof.errors import NumericsError
from specproof.rules import RULES
from specproof.rules.rows import pick
from specproof.testing.tiny import tiny_model
from specproof.tree import Tree
from specproof.types import Law

from .soaking import (
    CONTEXT,
    EOS,
    VOCABULARY,
    Letters,
    Moody,
    ending,
    favourite,
    fresh,
    looked_up,
    random_jobs,
    reference,
    rows,
    serve,
    stop_found,
)

FALSE_ALARM = 1e-4
DRAFT_CONTEXT = 50
BUSH = Tree.levels((2, 2))
# Rule and drafter of each engine; the first five have one right text for each seed.
SETTINGS = [
    ("coupling", "none"),
    ("coupling", "ngram"),
    ("coupling", "model, coupled"),
    ("coupling", "model, bush"),
    ("coupling", "moody"),
    ("rejection", "model"),
    ("rejection", "moody chains"),
    ("block", "model"),
    ("block", "ngram"),
    ("traversal", "model, bush"),
    ("traversal", "model, different"),
    ("walk", "model, different"),
    ("walk", "moody"),
]


@pytest.fixture(scope="module")
def models():
    """Target and draft model; the draft's context is the shorter one."""
    return tiny_model("llama", VOCABULARY, 0, context=CONTEXT), tiny_model(
        "llama", VOCABULARY, 1, context=DRAFT_CONTEXT
    )


def make_drafter(name, draft_model, known):
    if name.startswith("moody"):
        return Moody(known, chains=name == "moody chains")
    if name in ("none", "ngram"):
        return NoDrafter() if name == "none" else NgramDrafter(shortest=1)
    shape = BUSH if name in ("model, bush", "model, different") else 4
    drawn = "without_replacement" if name == "model, different" else "iid"
    return ModelDrafter(HFBackend(draft_model, chunk=7), shape, drawn, coupled=name == "model, coupled")


def soak(models, rule, drafter, jobs, rng, known):
    """Serve jobs on an engine of random limits; nothing may be left in its stores, nor of its requests."""
    engine = Engine(
        HFBackend(models[0], chunk=rng.choice([3, 512])),
        make_drafter(drafter, models[1], known),
        rule,
        tokenizer=Letters(),
        eos=[EOS],
        budget=rng.choice([1, 5, 9]),
        max_batch=rng.randint(1, 6),
        kv_tokens=rng.choice([None, CONTEXT, 3 * CONTEXT]),
        prefill=rng.choice([1, 5, 512]),
    )
    served = serve(engine, jobs)
    for backend in (engine.target, getattr(engine.drafter, "backend", None)):
        assert backend is None or backend.store.rows == []
    assert not engine.scheduler.running
    assert not engine.scheduler.waiting
    return served


def check_text(job, number, result, expected, reason):
    """The very text of naive decoding; of a cancelled request as much as there is."""
    tokens = list(result.tokens)
    if result.finish_reason == "cancelled":
        assert job.cancels[number] is not None
        assert tokens == expected[: len(tokens)]
    else:
        assert (tokens, result.finish_reason) == (expected, reason)


def check_rest(model, job, number, result, deltas):
    """What holds for every request, whatever its rule: its end, its text, its log-probabilities."""
    tokens, reason = list(result.tokens), result.finish_reason
    if reason == "cancelled":
        assert not tokens or ending(job, tokens) is None
    else:
        assert ending(job, tokens) == (None if reason == "error" else reason)
    if reason == "error":
        assert "no next token" in result.error
        with pytest.raises(NumericsError):
            rows(model, job, number, [*tokens, 0])
    text = Letters().decode(tokens)
    cut = stop_found(job.params, tokens) if reason == "stop" else None
    assert result.text == deltas == text[:cut]
    assert result.stats.tokens == len(tokens)
    assert all(warning.startswith("speculation is off") for warning in result.warnings)
    assert len(result.warnings) <= 1
    if job.params.logprobs is not None:
        law = rows(model, job, number, tokens)
        assert [entry.token for entry in result.logprobs] == tokens
        found = [entry.logprob for entry in result.logprobs]
        assert np.allclose(found, [float(row[t].log()) for row, t in zip(law, tokens, strict=True)], atol=1e-9)


class Pool:
    """Emitted tokens against their laws.

    A token's place in its law, the drafter's favourites first, is uniform in [0, 1): that sees any pull towards
    or away from what was drafted. Its log-probability has a known mean and variance: that sees laws that are
    too sharp or too flat. Both hold for tokens that were emitted before a text ended by its own rules.
    """

    def __init__(self):
        self.places, self.excess, self.variance = [], 0.0, 0.0
        self.random = np.random.default_rng(0)

    def add(self, law, tastes, tokens):
        for row, taste, token in zip(law, tastes, tokens, strict=True):
            order = torch.argsort(taste, descending=True, stable=True).tolist()
            before = float(row[order[: order.index(token)]].sum())
            self.places.append(before + self.random.random() * float(row[token]))
            logs = row.clamp(min=1e-300).log()
            mean = float((row * logs).sum())
            self.excess += float(logs[token]) - mean
            self.variance += float((row * logs**2).sum()) - mean**2

    @property
    def pvalue(self):
        """Of both tests together."""
        score = abs(self.excess) / self.variance**0.5
        return min(1.0, 2 * min(kstest(self.places, "uniform").pvalue, 2 * norm.sf(score)))


def taste(draft_model, drafter, job, number, tokens, law):
    """How much the drafter is for each token, [T, V]: its row over the target's, or what it proposes."""
    if drafter.startswith("model"):
        return rows(draft_model, job, number, tokens) / law.clamp(min=1e-300)
    texts = [job.prompt + list(tokens[:i]) for i in range(len(tokens))]
    proposed = [looked_up(text) if drafter == "ngram" else favourite(text) for text in texts]
    return torch.nn.functional.one_hot(torch.tensor(proposed, dtype=torch.long), VOCABULARY)


def run(models, count, turn):
    """One round over all settings; returns pools by rule, and what happened by kind."""
    pools, seen = {}, Counter()
    for place, (rule, drafter) in enumerate(SETTINGS):
        rng = random.Random(1000 * turn + place)
        jobs = random_jobs(rng, count, greedy=0.3 if rule == "coupling" else 0.1)
        coupled, known = rule == "coupling", {}
        expected = {}
        for job in jobs:
            for number in range(job.params.n):
                if coupled or job.params.temperature == 0:
                    text = reference(models[0], job, number, coupled)
                    expected[id(job), number] = text
                    known[fresh(job, number).seed] = text[0]
        served = soak(models, rule, drafter, jobs, rng, known)
        for job, number, result, deltas in served:
            check_rest(models[0], job, number, result, deltas)
            if (id(job), number) in expected:
                check_text(job, number, result, *expected[id(job), number])
            seen[result.finish_reason] += 1
            seen["warned"] += bool(result.warnings)
            seen["accepted"] += result.stats.accepted
        if not coupled:
            fill(pools.setdefault(rule, Pool()), models, drafter, served)
    return pools, seen


def fill(pool, models, drafter, served):
    """Put in all tokens that were drawn, of the requests that nobody meant to cancel."""
    for job, number, result, _ in served:
        if job.params.temperature == 0 or job.cancels[number] is not None:
            continue
        # The draft model's rows end where its context does.
        fits = max(0, DRAFT_CONTEXT - len(job.prompt)) if drafter.startswith("model") else CONTEXT
        tokens = result.tokens[:fits]
        law = rows(models[0], job, number, tokens)
        pool.add(law, taste(models[1], drafter, job, number, tokens, law), tokens)


def alive():
    """Live tensors and requests, after what is unreachable was collected."""
    gc.collect()
    kinds = Counter(type(each) for each in gc.get_objects())
    return sum(count for kind, count in kinds.items() if issubclass(kind, torch.Tensor)), kinds[Request]


@pytest.mark.parametrize("turns", [1, pytest.param(10, marks=pytest.mark.slow)])
def test_random_requests_get_the_text_or_the_law_of_naive_decoding(models, turns):
    """False alarm 1e-4 over all rules; over 200 requests by default, ten times as many in the slow run."""
    pools, seen = {}, Counter()
    for turn in range(turns):
        found, happened = run(models, 12, turn)
        seen += happened
        for rule, pool in found.items():
            total = pools.setdefault(rule, Pool())
            total.places += pool.places
            total.excess += pool.excess
            total.variance += pool.variance
    assert sum(seen[reason] for reason in ("stop", "length", "cancelled", "error")) > 200 * turns
    assert set(pools) == {"rejection", "block", "traversal", "walk"}
    for rule, pool in pools.items():
        assert pool.pvalue >= FALSE_ALARM / len(pools), (rule, pool.pvalue, len(pool.places))
    assert min(seen[kind] for kind in ("stop", "length", "cancelled", "warned", "accepted")) > 0


@pytest.mark.parametrize("count", [15, pytest.param(300, marks=pytest.mark.slow)])
def test_an_engine_keeps_nothing_of_the_requests_it_served(models, count):
    """Live tensors and requests after the first, second and third part of a long life are as many."""
    drafter = ModelDrafter(HFBackend(models[1]), BUSH)
    engine = Engine(HFBackend(models[0]), drafter, "walk", tokenizer=Letters(), eos=[EOS], max_batch=4, prefill=5)
    counts = []
    for part in range(3):
        serve(engine, random_jobs(random.Random(part), count, greedy=0.3))
        counts.append(alive())
        assert engine.target.store.rows == drafter.backend.store.rows == []
    assert counts[1] == counts[2] == counts[0]
    assert counts[0][1] == 0


def from_the_target(target, draft):
    """A planted fault: after a rejection the token comes from the target's row, not from the residual."""
    return Law(RULES["rejection"](target, draft).stop, lambda at: pick(target, at))


def by_another_row(target, draft):
    """A planted fault: each drafted token is judged by the row that its neighbour was drawn from."""
    rows = None if draft.rows is None else draft.rows.roll(-1, 1)
    return RULES["rejection"](target, replace(draft, rows=rows))


@pytest.mark.parametrize("rule", ["rejection", from_the_target, by_another_row])
def test_the_pool_sees_a_rule_that_is_not_lossless(models, rule):
    """The same kind of requests and the same test as above, for planted faults and the rule without them."""
    jobs = [replace(job, arrival=0) for job in random_jobs(random.Random(0), 120, greedy=0, cancelled=0)]
    engine = Engine(
        HFBackend(models[0]),
        make_drafter("model", models[1], {}),
        rule,
        tokenizer=Letters(),
        eos=[EOS],
        max_batch=40,
        adaptive=False,
    )
    pool = Pool()
    fill(pool, models, "model", serve(engine, jobs))
    assert pool.pvalue > FALSE_ALARM if rule == "rejection" else pool.pvalue < FALSE_ALARM / 4
