"""The ledger against closed forms, on models whose rounding is known, and with faults planted in a forward."""

import numpy as np
import pytest
import torch

from specproof.audit.answer import Verdict
from specproof.audit.mutants.cache import fed, history_hidden
from specproof.audit.mutants.rows import NeighboursBackend
from specproof.audit.numerics.blocks import Text
from specproof.audit.numerics.kept import KV, backend_with
from specproof.audit.numerics.moved import Summary, compare
from specproof.audit.numerics.result import Setting
from specproof.audit.numerics.run import Ways, audit_numerics
from specproof.audit.white.forcing import reference_for
from specproof.backends.hf import HFBackend
from specproof.errors import SpecproofError
from specproof.testing.tiny import tiny_model
from specproof.types import SamplingParams, TokenSequence

PROMPTS = [[1, 2, 3], [4], [2, 2, 5, 6, 1]]  # ragged, so that rows of a batch are padded
WAYS = Ways(batches=(1, 3), widths=(1, 2, 5), tokens=45, length=15)


def audited(dtype=torch.float64, ways=WAYS, params=None, seed=0, **options):
    """An audit of a tiny model in a dtype against the same weights (of seed 0) in float64."""
    reference = reference_for(HFBackend(tiny_model("llama", 8)))
    model = tiny_model("llama", 8, seed=seed).to(dtype)
    return audit_numerics(model, reference, PROMPTS, params or SamplingParams(), ways, **options)


def test_distances_of_a_row_by_hand():
    """p = (1/2, 1/4, 1/4) found as (1/4, 1/4, 1/2): TV 1/4, KL ln 2 / 4, another likeliest token."""
    text = Text(TokenSequence([0], 1, SamplingParams(), 0), [2, 1])
    other = torch.tensor([[0.5, 0.25, 0.25]] * 2).log()
    found = torch.tensor([[0.25, 0.25, 0.5], [0.5, 0.25, 0.25]]).log() + 3  # a shift of all logits is nothing
    moved = compare(text, 0, found, other)
    assert moved.tv == pytest.approx([0.25, 0], abs=1e-7)
    assert moved.kl == pytest.approx([np.log(2) / 4, 0], abs=1e-6)
    assert moved.log == pytest.approx([np.log(2), 0], abs=1e-6)
    assert moved.gap == pytest.approx([np.log(2)] * 2, abs=1e-6)
    assert moved.flip.tolist() == [True, False]
    assert moved.spread == pytest.approx([np.log(2) * np.sqrt(2 / 3), 0], abs=1e-6)
    summary = Summary.of(moved)
    assert (summary.flips, summary.support) == (1, 0)
    assert summary.widest == pytest.approx(np.log(2), abs=1e-6)


def test_a_filter_turns_rounding_into_lost_mass():
    """Top-k 1 at a near-tie: the row keeps another token, total variation 1, and infinitely far in KL."""
    text = Text(TokenSequence([0], 1, SamplingParams(top_k=1), 0), [1])
    moved = compare(text, 0, torch.tensor([[1.0, 1.001, 0]]), torch.tensor([[1.001, 1.0, 0]]))
    assert (moved.tv[0], moved.kl[0], moved.support[0], moved.flip[0]) == (1, np.inf, True, True)
    assert moved.log[0] == 0  # no token has mass in both


def test_float64_is_exact_however_it_is_run():
    result = audited()
    assert result.verdict is Verdict.EXACT, result
    assert result.samples == 45
    assert result.measured[0].setting == Setting("model", 1, 1)
    assert len(result.measured) == 6


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_rounding_is_rounding(dtype):
    """Every setting moves a logit about as far as plain decoding does: the verdict's factor has room."""
    result = audited(dtype, Ways(("model", "float8", "int8"), (1, 3), (1, 2, 5), 45, 15))
    assert result.verdict is Verdict.WITHIN_NUMERICS, result
    assert max(each.further(result.rounding(each)) for each in result.measured) < 0.6
    assert "reading more rows at a time moves it by at most" in result.reason


def test_fewer_bits_of_cache_move_rows_further():
    result = audited(torch.float32, Ways(tuple(KV), (1,), (1,), 45, 15))
    mean = {each.setting.kv: each.reference.tv.mean() for each in result.measured}
    assert mean["float32"] == mean["model"]
    assert mean["model"] < mean["float16"] < mean["bfloat16"] < mean["float8"]
    assert mean["float16"] < mean["int8"] < mean["float8"]


def neighbours(model, kv):
    return NeighboursBackend(backend_with(model, kv))


def altered(alter):
    return lambda model, kv: fed(backend_with(model, kv), alter)


def one_position(inputs):
    """All rows stand where the longest does."""
    return {"position_ids": inputs["position_ids"].amax(0, keepdim=True).expand_as(inputs["position_ids"])}


FAULTS = {"rows of the neighbour": neighbours, "one position for all": altered(one_position)}


@pytest.mark.parametrize(
    ("fault", "dtype"),
    [
        ("rows of the neighbour", torch.float64),
        ("rows of the neighbour", torch.bfloat16),
        # Rotary positions hide a shift of a whole text: what is left of it is lost in the rounding of bfloat16.
        ("one position for all", torch.float64),
    ],
)
def test_a_fault_of_batched_forwards_is_no_rounding(fault, dtype):
    result = audited(dtype, make=FAULTS[fault])
    assert result.verdict is Verdict.BIASED, result
    assert result.verdict.exit_code == 1
    assert all(each.setting.batch == 3 for each in result.faulty)
    assert "suspect mask, positions or cache" in result.reason


def blind_blocks(model, kv):
    """Rows after the root do not see the text before it."""

    def alter(inputs):
        if inputs["input_ids"].shape[1] > 1 and inputs["attention_mask"].shape[-1] > 16:
            return history_hidden(inputs)
        return {}

    return fed(backend_with(model, kv), alter)


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16], ids=str)
def test_a_fault_of_wide_forwards_is_no_rounding(dtype):
    result = audited(dtype, Ways(batches=(1,), widths=(1, 2, 5), tokens=45, length=15), make=blind_blocks)
    assert result.verdict is Verdict.BIASED, result
    assert {each.setting.width for each in result.faulty} <= {2, 5}


def test_another_model_is_no_baseline():
    result = audited(torch.float32, seed=1)
    assert result.verdict is Verdict.NO_BASELINE, result
    assert result.verdict.exit_code == 3
    assert "not the same model, or too few bits" in result.reason


def test_a_position_fault_in_every_forward_is_no_baseline():
    """Plain decoding that is wrong itself is not taken for the measure of rounding."""
    result = audited(make=altered(lambda inputs: inputs | {"position_ids": inputs["position_ids"] * 3}))
    assert result.verdict is Verdict.NO_BASELINE, result


@pytest.mark.parametrize(
    ("options", "match"),
    [({"widths": (0,)}, "widths"), ({"batches": ()}, "batches"), ({"tokens": 10**6}, "4096"), ({"kv": ()}, "kv")],
)
def test_ways_that_cannot_be_run(options, match):
    with pytest.raises(SpecproofError, match=match):
        Ways(**options)


def test_the_same_seed_gives_the_same_ledger():
    documents = [audited(torch.float32, Ways(batches=(1,), widths=(1, 3), tokens=12)).settings for _ in range(2)]
    assert documents[0] == documents[1]
    assert len(documents[0]["settings"][1]["against_decoding"]["per_position"]["tv"]) == 12
