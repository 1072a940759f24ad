"""Shapes as pure functions: the papers' examples, and nothing better among all trees of the size."""

from itertools import product

import pytest
import torch

from specproof.drafters.shapes.best_first import best_first, most_probable_prefixes
from specproof.drafters.shapes.expand import Candidates, Dynamic
from specproof.drafters.shapes.sequoia import expected_tokens, optimal_tree, tree_tokens
from specproof.errors import SpecproofError
from specproof.tree import Tree

ACCEPTANCE = (0.6, 0.2, 0.1)
MARGINALS = ((0.6, 0.3, 0.1), (0.5, 0.4, 0.1), (0.7, 0.2, 0.1))


def all_trees(nodes):
    """Every tree of at most so many nodes."""
    for size in range(nodes + 1):
        for parents in product(*(range(-1, node) for node in range(size))):
            yield Tree(parents)


class TestSequoia:
    @pytest.mark.parametrize(
        ("nodes", "tokens"),
        [
            (0, 1),
            (1, 1.6),
            (2, 1.96),
            (3, 2.176),
            (4, 2.376),
            (5, 2.5056),
            (7, 2.7456),
            (9, 2.92336),
            (15, 3.306016),
        ],
    )
    def test_known_values(self, nodes, tokens):
        assert expected_tokens(ACCEPTANCE, nodes) == pytest.approx(tokens, abs=1e-12)

    @pytest.mark.parametrize(("nodes", "tokens"), [(5, 2.496), (7, 2.716), (9, 2.86), (15, 3.164)])
    def test_known_values_of_at_most_four_levels(self, nodes, tokens):
        assert expected_tokens(ACCEPTANCE, nodes, depth=3) == pytest.approx(tokens, abs=1e-12)
        assert max(optimal_tree(ACCEPTANCE, nodes, depth=3).depths) <= 3

    @pytest.mark.parametrize("depth", [None, 0, 1, 2, 3])
    @pytest.mark.parametrize("acceptance", [ACCEPTANCE, (0.3, 0.3, 0.3), (0.9,), (0.1, 0.5), (0.0, 0.4), ()])
    def test_no_tree_of_the_size_is_better(self, acceptance, depth):
        trees = [tree for tree in all_trees(5) if depth is None or max(tree.depths, default=0) <= depth]
        best = max(tree_tokens(acceptance, tree) for tree in trees)
        assert expected_tokens(acceptance, 5, depth) == pytest.approx(best, abs=1e-12)

    @pytest.mark.parametrize("depth", [None, 0, 2, 4])
    @pytest.mark.parametrize("nodes", [0, 1, 6, 23])
    def test_the_tree_has_the_value_and_stands_level_by_level(self, nodes, depth):
        tree = optimal_tree(ACCEPTANCE, nodes, depth)
        assert tree_tokens(ACCEPTANCE, tree) == pytest.approx(expected_tokens(ACCEPTANCE, nodes, depth), abs=1e-12)
        assert len(tree) <= nodes
        assert list(tree.depths) == sorted(tree.depths)

    def test_a_place_that_is_never_accepted_gets_no_node(self):
        assert len(optimal_tree((0.5, 0.0), 10, depth=2)) == 2

    def test_nonsense_is_refused(self):
        with pytest.raises(SpecproofError, match=r"acceptance \[0.7, 0.6\] is no law"):
            optimal_tree((0.7, 0.6), 3)
        with pytest.raises(SpecproofError, match="a tree of -1 nodes"):
            optimal_tree(ACCEPTANCE, -1)


class TestBestFirst:
    def test_the_known_tree(self):
        found = most_probable_prefixes(MARGINALS, 7)
        prefixes = {tuple(token + 1 for token in node.item): node.value for node in found}
        known = {(1,): 0.6, (1, 1): 0.3, (2,): 0.3, (1, 2): 0.24, (1, 1, 1): 0.21, (1, 2, 1): 0.168, (2, 1): 0.15}
        assert prefixes == pytest.approx(known)
        assert sum(prefixes.values()) == pytest.approx(1.968)

    @pytest.mark.parametrize("most", [1, 5, 12, 100])
    def test_these_are_the_most_probable_prefixes_and_a_tree(self, most):
        rows = torch.rand(3, 4, generator=torch.Generator().manual_seed(most)).double()
        rows = (rows / rows.sum(-1, keepdim=True)).tolist()
        every = [
            torch.tensor([rows[depth][token] for depth, token in enumerate(prefix)]).double().prod().item()
            for length in (1, 2, 3)
            for prefix in product(range(4), repeat=length)
        ]
        found = most_probable_prefixes(rows, most)
        assert [node.value for node in found] == pytest.approx(sorted(every, reverse=True)[:most])
        for place, node in enumerate(found):
            assert node.parent < place
            assert node.item[:-1] == (found[node.parent].item if node.parent >= 0 else ())

    def test_small_and_impossible_nodes_are_left_out(self):
        def children(node):
            yield from ((0.5, 2 * node), (0.3, 2 * node + 1), (0.0, -1))

        found = best_first(children, 1, 100, least=0.14)
        assert sorted(node.value for node in found) == pytest.approx([0.15, 0.15, 0.25, 0.3, 0.5])
        assert len(best_first(lambda _: iter([(0.0, 1)]), 1, 100)) == 0


class TestExpand:
    def test_the_known_tree(self):
        """Expand the two best of each level, keep the seven best nodes (figure 7 of EAGLE-2)."""
        words = {
            "It": (("is", 0.6), ("has", 0.2)),
            "is": (("a", 0.8), ("the", 0.1)),
            "has": (("to", 0.7), ("a'", 0.1)),
            "a": (("good", 0.7), ("nice", 0.1)),
            "to": (("be", 0.6), ("do", 0.2)),
        }
        names, candidates, level = [], Candidates(), [-1]
        for depth in range(3):
            for node in level:
                for word, confidence in words["It" if node < 0 else names[node]]:
                    candidates.add(node, len(names), confidence)
                    names.append(word)
            level = candidates.widest(depth + 1, 2)
        assert [names[node] for node in candidates.kept(7)] == ["is", "has", "a", "the", "to", "good", "be"]
        values = dict(zip(names, candidates.values, strict=True))
        assert values == pytest.approx(
            {"is": 0.6, "a": 0.48, "good": 0.336, "has": 0.2, "to": 0.14, "be": 0.084, "the": 0.06}
            | {"nice": 0.048, "do": 0.028, "a'": 0.02}
        )

    def test_ties_go_to_the_earlier_level(self):
        candidates = Candidates()
        for parent, confidence in ((-1, 0.5), (-1, 0.5), (0, 1.0), (1, 1.0)):
            candidates.add(parent, 0, confidence)
        assert candidates.kept(2) == [0, 1]
        assert candidates.kept(3) == [0, 1, 2]

    def test_what_has_no_confidence_is_not_generated(self):
        candidates = Candidates()
        candidates.add(-1, 0, 0.0)
        assert candidates.kept(5) == candidates.widest(1, 5) == []

    def test_empty_plans_are_refused(self):
        with pytest.raises(SpecproofError, match="dynamic tree of depth 0, width 4 and 16 nodes"):
            Dynamic(depth=0)
