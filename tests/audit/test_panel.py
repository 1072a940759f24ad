import numpy as np
import pytest

from specproof.audit.adaptors.coins import SeededCoins
from specproof.audit.exact import target_law
from specproof.audit.panel import commit, completed, edge_panel, panel, proposals
from specproof.errors import SpecproofError

INSTANCES = panel() | edge_panel()


@pytest.mark.parametrize("instance", INSTANCES.values(), ids=INSTANCES)
def test_law_is_the_exact_audits_and_drafts_are_all_there(instance):
    law = completed(instance, ())
    np.testing.assert_allclose(law, target_law(instance).numpy(), atol=1e-15)
    assert sum(draft.probability for draft in proposals(instance)) == pytest.approx(1)


def test_panel_has_what_audits_need():
    assert any(instance.target.order == 0 for instance in panel().values())
    assert any(instance.target.order >= 2 for instance in panel().values())
    assert any(instance.drawn == "point" for instance in panel().values())
    zero = [any((level == 0).any() for level in instance.target.levels) for instance in edge_panel().values()]
    assert sum(zero) >= 4


def test_completion_starts_with_what_was_committed():
    instance = panel()["context"]
    law = completed(instance, (2, 1)).reshape(3, 3, 3)
    np.testing.assert_allclose(law[2, 1], instance.target.row([2, 1]).numpy())
    assert law.sum() == pytest.approx(1)
    whole = completed(instance, (2, 1, 0, 2))  # cut at the text's end
    assert whole.reshape(3, 3, 3)[2, 1, 0] == 1


@pytest.mark.parametrize("returned", [[], [0, 0, 0, 0], [-1], [3]])
def test_what_cannot_be_a_commit_is_refused(returned):
    proposal = proposals(panel()["context"])[0]
    with pytest.raises(SpecproofError, match="the accepted tokens and one more"):
        commit(lambda *_: returned, proposal, SeededCoins(0))


def test_verifier_cannot_spoil_the_panel():
    proposal = proposals(panel()["context"])[0]
    before = proposal.target.clone()

    def spoils(target, drawn, tokens, coins):
        target.zero_()
        return [0]

    commit(spoils, proposal, SeededCoins(0))
    assert proposal.target.equal(before)
