from specproof.engine.stats import Statistics


def test_b50_figures_of_a_known_histogram():
    """Field case B50: ten steps of three drafted tokens, accepted counts 5 x 0, 2 x 1, 0 x 2, 3 x 3."""
    stats = Statistics()
    for accepted in [0] * 5 + [1] * 2 + [3] * 3:
        stats.count((1, 2, 3), accepted, accepted + 1)
    assert (stats.steps, stats.drafted, stats.accepted) == (10, 30, 11)
    assert round(stats.acceptance, 4) == 0.3667
    assert stats.tokens_per_forward == 2.1
    assert stats.acceptance_by_depth == {1: 0.5, 2: 0.3, 3: 0.3}
    assert stats.histogram == {0: 5, 1: 2, 3: 3}


def test_nodes_cut_by_an_end_were_never_asked_for():
    stats = Statistics()
    stats.count((1, 2, 3, 4), accepted=4, kept=2)
    assert (stats.tokens, stats.drafted, stats.accepted) == (2, 2, 2)
    assert stats.acceptance_by_depth == {1: 1.0, 2: 1.0}


def test_siblings_count_once_a_depth():
    stats = Statistics()
    stats.count((1, 1, 2, 2), accepted=1, kept=2)
    assert (stats.drafted, stats.accepted) == (4, 1)
    assert stats.acceptance_by_depth == {1: 1.0, 2: 0.0}


def test_nothing_drafted_divides_by_nothing():
    stats = Statistics()
    assert (stats.tokens_per_forward, stats.acceptance, stats.acceptance_by_depth) == (0.0, 0.0, {})
    stats.count((), 0, 1)
    assert stats.as_dict()["tokens_per_forward"] == 1.0
