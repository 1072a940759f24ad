import pytest

from specproof.errors import SpecproofError
from specproof.tree import Tree


def test_a_chain_is_a_tree_of_parents():
    assert Tree.chain(3).parents == (-1, 0, 1)
    assert Tree.chain(3).is_chain
    assert Tree.chain(0).is_chain
    assert len(Tree.chain(0)) == 0
    assert not Tree((-1, -1)).is_chain


def test_levels_paths_children_and_depths():
    #        root
    #       0    1
    #      2 3  4 5
    tree = Tree.levels((2, 2))
    assert tree.parents == (-1, -1, 0, 0, 1, 1)
    assert tree.depths == (1, 1, 2, 2, 2, 2)
    assert tree.path(5) == (1, 5)
    assert tree.path(-1) == ()
    assert tree.children(-1) == (0, 1)
    assert tree.children(1) == (4, 5)


@pytest.mark.parametrize("parents", [(0,), (-1, 1), (-2,), (-1, 2, 0)])
def test_parents_come_before_children(parents):
    with pytest.raises(SpecproofError, match="parents come first"):
        Tree(parents)
