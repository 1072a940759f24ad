"""The choice among independent draws: its law is what it says, and close to the optimum in large vocabularies."""

from itertools import product

import pytest
import torch

from specproof.rules.selector import LEVELS, best_selector, select


def rows(generator, size, spread=1.0):
    drawn = (torch.randn(1, size, generator=generator, dtype=torch.float64) * 2).softmax(-1)
    target = (drawn.log() + torch.randn(1, size, generator=generator, dtype=torch.float64) * spread).softmax(-1)
    return target, drawn


@pytest.mark.parametrize(("size", "count"), [(2, 2), (3, 2), (4, 3), (3, 5), (6, 2), (1, 3)])
def test_the_law_of_the_chosen_token_by_enumeration(size, count):
    generator = torch.Generator().manual_seed(size * count)
    for _ in range(5):
        target, drawn = rows(generator, size)
        selector = best_selector(target, drawn, torch.tensor([count]))
        tokens = torch.tensor(list(product(range(size), repeat=count)))
        everywhere = type(selector)(*(part.expand(len(tokens), -1) for part in selector))
        chances = select(everywhere, tokens, torch.ones_like(tokens, dtype=torch.bool))
        torch.testing.assert_close(chances.sum(-1), torch.ones(len(tokens), dtype=torch.float64))
        mass = drawn[0][tokens].prod(-1, keepdim=True) * chances
        law = torch.zeros(size, dtype=torch.float64).index_add_(0, tokens.flatten(), mass.flatten())
        torch.testing.assert_close(law, selector.law[0], rtol=0, atol=1e-14)


@pytest.mark.parametrize("count", [2, 4, 8])
def test_a_large_vocabulary_is_as_close_to_the_optimum_as_stated(count):
    target, drawn = rows(torch.Generator().manual_seed(count), 20_000)
    order = (target / drawn).argsort()
    below, under = target.gather(1, order).cumsum(-1), drawn.gather(1, order).cumsum(-1)
    best = 1 + min(0.0, float((below - under**count).min()))
    law = best_selector(target, drawn, torch.tensor([count])).law
    found = float(torch.minimum(target, law).sum())
    # The density of the best law is at most `count`: that of taking the largest of all draws.
    assert best - count / (4 * LEVELS) <= found <= best + 1e-12
    assert float(law.sum()) == pytest.approx(1, abs=1e-12)


def test_one_draw_is_chosen_as_it_is():
    target, drawn = rows(torch.Generator().manual_seed(0), 7)
    torch.testing.assert_close(best_selector(target, drawn, torch.tensor([1])).law, drawn, rtol=0, atol=1e-14)


def test_equal_rows_take_the_first_draw():
    _, drawn = rows(torch.Generator().manual_seed(1), 5)
    selector = best_selector(drawn, drawn, torch.tensor([3]))
    chances = select(selector, torch.tensor([[4, 0, 2]]), torch.ones(1, 3, dtype=torch.bool))
    torch.testing.assert_close(chances, torch.tensor([[1.0, 0.0, 0.0]], dtype=torch.float64), rtol=0, atol=1e-12)
