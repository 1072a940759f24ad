"""The p-contract: our engine keeps it under every pair of parameters, and every planted fault is seen.

That the lattice covers every parameter and every pair is tested beside the processors (tests/sampling).
"""

from itertools import product

import pytest
import torch
from transformers import LogitsProcessorList

from specproof.audit.answer import Verdict
from specproof.audit.mutants.processor import (
    block_counted_once,
    bonus_unprocessed,
    border_unseen,
    ignored,
    processed,
    steps_counted,
    top_p_first,
    warped,
    without_min_p,
    without_temperature,
    without_top_k,
)
from specproof.audit.parameters import foreign, lattice
from specproof.audit.parameters.compared import ParametersResult, tied
from specproof.audit.parameters.foreign import compare_generate
from specproof.audit.parameters.rows import compare_rows
from specproof.audit.parameters.tiny import compare_tiny
from specproof.backends.hf import HFBackend
from specproof.testing.tiny import tiny_model

PROMPTS = [[1, 2, 3, 1, 2], [4]]
SETTINGS = lattice.covering(lattice.values_for((1, 2, 3), 0, wide=False))


@pytest.fixture(scope="module")
def target():
    return HFBackend(tiny_model("llama", 8, seed=0))


def rows(target, settings, **options):
    return list(compare_rows(target, PROMPTS, settings, [1, 2, 3, 4, 0], [0], **options))


def test_every_row_that_the_rule_is_handed_is_plain_decodings(target):
    found = rows(target, SETTINGS)
    assert all(each.ok for each in found), [str(each) for each in found if not each.ok]
    assert all(each.drafted >= 10 for each in found)
    assert ParametersResult("x", tuple(found), {}).verdict is Verdict.EXACT


def test_the_exact_law_on_one_setting_of_each_kind_of_draft():
    """All of them run on the command line; tests/sampling has each as a case of its own."""
    found = list(compare_tiny(SETTINGS[2:3]))
    assert [each.ok for each in found] == [True] * 3
    assert all(each.drafted for each in found)


# Words of three tokens: some begin in the text and end in the draft.
TRIPLES = tuple(product(range(5), range(1, 5), (1, 2)))
FAULTS = [
    ("ignored penalty", processed(ignored), {"presence_penalty": 0.8}),
    ("a block counts once", processed(block_counted_once), {"frequency_penalty": 0.6}),
    ("bonus unprocessed", processed(bonus_unprocessed), {"logit_bias": {1: 1.5}}),
    ("border of text and draft", processed(border_unseen), {"bad_words": TRIPLES}),
    ("steps counted as tokens", steps_counted, {"min_tokens": 3}),
    ("no temperature", warped(without_temperature), {"temperature": 0.6}),
    ("no top-k", warped(without_top_k), {"top_k": 2}),
    ("no min-p on drafted rows", warped(without_min_p, drafted_only=True), {"min_p": 0.2}),
    ("top-p before temperature", warped(top_p_first), {"top_p": 0.8, "temperature": 1.7}),
]


@pytest.mark.parametrize(("plant", "setting"), [fault[1:] for fault in FAULTS], ids=[fault[0] for fault in FAULTS])
def test_planted_faults_show_in_the_rows(target, plant, setting):
    (sound,), (found,) = rows(target, [setting]), rows(target, [setting], plant=plant)
    assert sound.ok
    assert not found.ok
    result = ParametersResult("x", (found,), {})
    assert result.verdict is Verdict.BIASED
    assert result.answer.exit_code == 1
    assert "speculation follows another law" in result.reason


def test_a_planted_fault_shows_in_the_exact_law():
    (found,) = compare_tiny([{"presence_penalty": 0.8}], processed(bonus_unprocessed), [("model", "block")])
    assert found.tv > 1e-3


def test_support_counts_even_where_the_distance_is_small():
    """A token of mass 1e-12 that the filter should have dropped is seen, though no distance would show it."""
    from specproof.audit.parameters.compared import Tally

    tally = Tally()
    tally.add(torch.tensor([0.6, 0.4 - 1e-12, 1e-12]), torch.tensor([0.6, 0.4, 0.0]), True, "here")
    assert not tally.compared("top_k=2", "x", 1e-9).ok


def test_which_of_equal_tokens_a_filter_keeps_is_no_fault():
    third = torch.tensor([0.5, 0.25, 0.25, 0.0]).double()
    assert tied(third, torch.tensor([2 / 3, 1 / 3, 0, 0]).double())
    assert not tied(third, torch.tensor([0.5, 0.5, 0, 0]).double())  # another law altogether
    assert not tied(third, torch.tensor([0, 0.5, 0.5, 0]).double())  # the likeliest was dropped
    assert not tied(torch.tensor([0.5, 0.3, 0.2]).double(), torch.tensor([0.625, 0.375, 0]).double())


@pytest.fixture(scope="module")
def models():
    """Two tiny transformers that end texts with token 0."""
    found = [tiny_model("llama", 8, seed=seed) for seed in (0, 1)]
    for model in found:
        model.generation_config.eos_token_id = model.generation_config.pad_token_id = 0
    return found


class TestTransformers:
    """`generate` of transformers with a draft model and with prompt lookup, against itself without."""

    def compared(self, models, settings, assistance=None):
        given = {"prompt_lookup_num_tokens": 3} if assistance is None else assistance
        return list(compare_generate(models[0], [[1, 2, 3, 1, 2]], settings, given, "x"))

    @pytest.mark.parametrize("assisted", ["assistant", "lookup"])
    def test_most_parameters_keep_the_law(self, models, assisted):
        given = {"assistant_model": models[1]} if assisted == "assistant" else None
        values = foreign.values_for((1, 2, 3), wide=False)
        alone = [{name: each[0]} for name, each in values.items() if name != "guidance_scale"]
        found = self.compared(models, alone, given)
        assert all(each.ok and each.rows for each in found), [str(each) for each in found if not each.ok]
        assert sum(each.drafted for each in found) > 20

    def test_guidance_does_not(self, models):
        """Its processor keeps a cache of its own that is not rolled back; seen with 5.24.0."""
        (found,) = self.compared(models, [{"guidance_scale": 1.5}], {"assistant_model": models[1]})
        assert found.tv > 0.01

    def test_a_processor_that_skips_the_bonus_row_is_seen(self, models, monkeypatch):
        """The fault is in the assisted arm only: the last row of a block keeps its temperature of 1."""
        real = LogitsProcessorList.__call__

        def skipping(self, input_ids, scores, **kwargs):
            return (
                scores
                if input_ids.shape[1] % 3 == 0 and getattr(self, "lead", ()) is None
                else real(self, input_ids, scores)
            )

        assert self.compared(models, [{"temperature": 0.6}])[0].ok
        monkeypatch.setattr(LogitsProcessorList, "__call__", skipping)
        assert not self.compared(models, [{"temperature": 0.6}])[0].ok
