"""The q-contract: every drafter of the package keeps it, and every planted fault is seen, by sums or by samples.

Samples: levels sum to alpha = 1e-3 with fixed seeds; a fault that is not seen is one of 5 % at the stated power.
"""

from dataclasses import replace

import pytest
import torch

from specproof.audit.answer import Verdict
from specproof.audit.drafter.run import Where, audit_drafter, built, tiny_place
from specproof.audit.engine_suite import DRAFTERS as TINY
from specproof.audit.mutants.draw import ColderDrafter, EagerDrafter, HonestColderDrafter
from specproof.backends.hf import HFBackend
from specproof.drafters.model import ModelDrafter
from specproof.drafters.none import empty_draft
from specproof.errors import SpecproofError
from specproof.testing.tiny import tiny_model
from specproof.tree import Tree
from specproof.types import Draft


def model():
    return HFBackend(tiny_model("llama", 4, seed=1))


def audited(make, draws=400):
    """An audit on the tiny target; fewer draws where sums alone decide."""
    return audit_drafter("x", [tiny_place("x", lambda _: make())._replace(draws=draws)])


@pytest.mark.parametrize("name", sorted(set(TINY) - {"none"}))
def test_every_drafter_of_the_package_keeps_its_contract(name):
    result = audit_drafter(name, [tiny_place(name)._replace(draws=64)])
    assert result.verdict is Verdict.EXACT, result.reason
    assert result.tv <= 1e-12


def test_nothing_drafted_is_no_answer():
    result = audit_drafter("none", [tiny_place("none")])
    assert result.verdict is Verdict.NOT_EXERCISED
    assert result.answer.exit_code == 3


def test_what_one_model_showed_says_nothing_of_another():
    """The second place has no text that repeats itself, so its lookups find nothing; it hid behind the first."""
    place = tiny_place("ngram")
    idle = place._replace(name="idle", enumerated=[place.enumerated[0]._replace(tokens=(1, 2, 3))])
    result = audit_drafter("ngram", [place, idle])
    assert result.verdict is Verdict.NOT_EXERCISED
    assert "nothing was drafted on idle (1 contexts)" in result.reason


class Altered(ModelDrafter):
    """A correct drafter whose drafts are altered before they are returned."""

    def alter(self, draft: Draft) -> Draft:
        raise NotImplementedError

    def draft(self, batch, budget, noise):
        draft = super().draft(batch, budget, noise)
        return draft if draft.rows is None else self.alter(draft)


class NextRow(Altered):
    """Rows stand one node too late."""

    def alter(self, draft):
        return replace(draft, rows=draft.rows.roll(-1, 1))


class OneHot(Altered):
    """Each row is certain of whatever was drawn from it: no test of draws alone sees it."""

    def alter(self, draft):
        rows = torch.zeros_like(draft.rows)
        for b, tree in enumerate(draft.trees):
            for node, parent in enumerate(tree.parents):
                rows[b, parent + 1, draft.tokens[b, node]] = 1
        return replace(draft, rows=rows)


class Greedy(Altered):
    """The likeliest token, with the soft row beside it."""

    def alter(self, draft):
        tokens = draft.tokens.clone()
        for node, parent in enumerate(draft.trees[0].parents):
            tokens[:, node] = draft.rows[:, parent + 1].argmax(-1)
        return replace(draft, tokens=tokens)


class Dropping(Altered):
    """A last token that is unlikely is dropped for its value."""

    def alter(self, draft):
        if draft.tokens.shape[1] < 2:
            return draft
        last = draft.tokens.shape[1] - 1
        trees = tuple(
            Tree.chain(last) if draft.rows[b, last, draft.tokens[b, last]] < 0.3 else tree
            for b, tree in enumerate(draft.trees)
        )
        return replace(draft, trees=trees)


class Filtered(ModelDrafter):
    """Drawn under top-k 2, and the whole rows returned."""

    def draft(self, batch, budget, noise):
        return super().draft(batch, budget, _TopTwo(noise))


class _TopTwo:
    def __init__(self, noise):
        self.noise = noise

    def choose(self, rows, keys):
        kept = rows.masked_fill(rows < rows.topk(2).values[:, -1:], 0)
        return self.noise.choose(kept / kept.sum(-1, keepdim=True), keys)


class Twice(ModelDrafter):
    """All nodes are decided by one random number."""

    def draft(self, batch, budget, noise):
        return super().draft(batch, budget, _OneKey(noise))


class _OneKey:
    def __init__(self, noise):
        self.noise = noise

    def choose(self, rows, keys):
        return self.noise.choose(rows, [key._replace(part=0) for key in keys])


FAULTS = {
    "another temperature": (lambda: ColderDrafter(model(), 2), "probabilities that their rows give"),
    "one node too many": (lambda: EagerDrafter(model(), 6), "4 nodes for a budget of 3"),
    "rows of the next node": (lambda: NextRow(model(), 2), "TV"),
    "one-hot rows": (lambda: OneHot(model(), 2), "change with what was drawn"),
    "greedy with soft rows": (lambda: Greedy(model(), 1), "probabilities that their rows give"),
    "dropped by value": (lambda: Dropping(model(), 2), "probabilities that their rows give"),
    "filtered, whole rows": (lambda: Filtered(model(), 2), "probabilities that their rows give"),
    "one random number": (lambda: Twice(model(), 2), "one random number for two decisions"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_planted_faults_are_seen(fault):
    make, words = FAULTS[fault]
    result = audited(make)
    assert result.verdict is Verdict.BIASED
    assert result.answer.exit_code == 1
    assert any(words in each for each in result.faults), result.faults


def test_another_temperature_that_the_rows_tell_of_is_no_fault():
    assert audited(lambda: HonestColderDrafter(model(), 2)).verdict is Verdict.EXACT


class OwnChance:
    """A user's drafter that draws with torch's generator; `power` of its row is what it draws from."""

    drawn = "iid"
    chains = True

    def __init__(self, power=1.0):
        self.row = torch.tensor([0.4, 0.3, 0.2, 0.1])
        self.power = power
        self.generator = torch.Generator().manual_seed(7)

    def draft(self, batch, budget, noise):
        nodes = min(budget)
        if nodes == 0:
            return empty_draft(len(batch), "iid")
        tokens = torch.multinomial(
            self.row**self.power, len(batch) * nodes, replacement=True, generator=self.generator
        )
        rows = self.row.expand(len(batch), nodes + 1, 4)
        return Draft((Tree.chain(nodes),) * len(batch), tokens.reshape(len(batch), nodes), rows, "iid")

    def observe(self, batch, steps, output):
        pass

    def free(self, batch):
        pass


def test_draws_of_its_own_are_sampled():
    """It cannot be enumerated; 2000 drafts of three nodes follow their rows."""
    result = audited(OwnChance, draws=1000)
    assert result.verdict is Verdict.LOSSLESS, result.reason
    assert len(result.answer.tests) == 4
    assert any("equal seeds gave other drafts" in note for note in result.answer.notes)


def test_wrong_draws_of_its_own_are_seen_in_samples():
    """Power 1.5 of the row: a total variation of 0.1 at each node, of which 2000 drafts show 0.07."""
    result = audited(lambda: OwnChance(1.5), draws=1000)
    assert result.verdict is Verdict.BIASED
    assert all("tokens do not follow their rows" in fault for fault in result.faults)
    assert result.answer.power < 0.1


def test_a_users_class_is_built_with_what_it_takes():
    assert isinstance(built(OwnChance, model()), OwnChance)
    assert isinstance(built(lambda backend: ModelDrafter(backend, 2), model()), ModelDrafter)
    with pytest.raises(SpecproofError, match="needs a, b"):
        built(lambda a, b: None, model())
    with pytest.raises(SpecproofError, match="makes no drafter: it has no 'draft'"):
        built(lambda: 3, model())


def test_a_place_is_what_the_plan_writes_down():
    place = tiny_place("model")
    assert isinstance(place, Where)
    first, second = (audit_drafter("model", [place._replace(draws=n)]).answer.digest for n in (64, 65))
    assert first != second
