"""What is advised, for figures that were made up."""

from dataclasses import replace

import pytest

from specproof.bench.advice import advise, credible
from specproof.bench.figures import MEAN, Figures
from specproof.engine.advice import Advice


def figure(way="ngram", speedup=2.0, kind=MEAN, **changes):
    one = Figures(
        temperature=0.0,
        way=way,
        kind=kind,
        rule="coupling",
        texts=3,
        tokens=90,
        tokens_per_second=20.0,
        request_tokens_per_second=18.0,
        speedup=speedup,
        speedup_low=None if speedup is None else speedup - 0.1,
        speedup_high=None if speedup is None else speedup + 0.1,
        request_speedup=speedup,
        predicted_speedup=speedup,
        tokens_per_forward=2.5,
        acceptance=0.6,
        drafting=0.8,
        acceptance_by_depth={1: 0.6},
        conditional_by_depth={1: 0.6},
        drafted_at={1: 100},
        break_even=0.1,
        best=Advice(0, 1.0),
    )
    return replace(one, **changes)


PLAIN = figure(
    "none", 1.0, tokens_per_forward=1.0, acceptance_by_depth={}, drafted_at={}, break_even=None, best=None
)


def text(*found, wrong=()):
    (sentence,) = advise([PLAIN, *found], frozenset(wrong))
    return sentence


def test_the_fastest_is_advised():
    sentence = text(figure("ngram", 1.5), figure("suffix", 2.0))
    assert sentence.way == "suffix"
    assert sentence.text == "speculate with suffix: 2.00x (1.90–2.10), 2.50 tokens per forward."


def test_dont_speculate_and_why():
    sentence = text(figure(speedup=0.97, acceptance_by_depth={1: 0.07}, tokens_per_forward=1.04, drafting=0.3))
    assert sentence.way == "none"
    assert sentence.text == (
        "don't speculate here: the best is ngram with 0.97x (0.87–1.07), 1.04 tokens per forward. "
        "It drafts in 30 % of the steps; of first tokens 7 % are accepted, and one pays from 10 % on."
    )


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"drafted_at": {}, "acceptance_by_depth": {}}, "It found nothing to draft."),
        ({"break_even": 1.3}, "and drafting one costs more than it can ever gain."),
        ({"break_even": None}, "of first tokens 60 % are accepted."),
        ({"break_even": -0.2}, "of first tokens 60 % are accepted."),
    ],
)
def test_reasons(changes, said):
    assert text(figure(speedup=1.0, tokens_per_forward=1.0, **changes)).text.endswith(said)


def test_a_speedup_above_the_tokens_per_forward_is_noise():
    """No forward is faster for being wide, so a drafter that never gained a token gained no time."""
    lucky = figure("suffix", 1.92, tokens_per_forward=1.0)
    assert credible(lucky) == 1.0
    assert text(lucky).way == "none"
    assert "more than its tokens per forward is the noise of this run" in text(lucky).text
    assert text(lucky, figure("ngram", 1.5)).way == "ngram"


def test_a_gain_that_not_every_turn_shows_is_no_reason():
    sentence = text(figure(speedup=1.2, speedup_low=0.8))
    assert sentence.way == "none"
    assert "which this run cannot tell from no gain" in sentence.text


def test_wrong_texts_are_advised_against_however_fast():
    assert text(figure("ngram", 9.0), figure("suffix", 1.5), wrong=["ngram"]).way == "suffix"
    assert text(figure("ngram", 9.0), wrong=["ngram"]).text.startswith("nothing to advise")
    assert text(figure(speedup=None)).way == "none"


def test_what_the_cost_model_would_change():
    assert "The cost model promises 2.60x for drafts of 3" in text(figure(best=Advice(3, 2.6))).text
    assert "cost model" not in text(figure(best=Advice(3, 2.01))).text


def test_every_temperature_and_kind_has_its_advice_the_mean_first():
    found = [one for kind in ("chat", "code", MEAN) for one in (replace(PLAIN, kind=kind), figure(kind=kind))]
    found += [replace(one, temperature=1.0) for one in found]
    assert [(s.temperature, s.kind) for s in advise(found)] == [
        (t, kind) for t in (0.0, 1.0) for kind in (MEAN, "chat", "code")
    ]
    alone = [one for kind in ("chat", MEAN) for one in (replace(PLAIN, kind=kind), figure(kind=kind))]
    assert [s.kind for s in advise(alone)] == [MEAN]
