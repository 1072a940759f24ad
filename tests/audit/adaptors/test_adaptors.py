from importlib import metadata

import pytest
import torch
import transformers.generation.utils as foreign

from specproof.audit.adaptors import ADAPTORS, installed, load
from specproof.audit.adaptors.coins import ScriptedCoins
from specproof.audit.adaptors.transformers import Transformers
from specproof.errors import SpecproofError

ROWS = torch.tensor([[0.5, 0.25, 0.25], [0.1, 0.2, 0.7], [0.3, 0.3, 0.4]])
DRAWN = torch.tensor([[0.25, 0.5, 0.25], [0.5, 0.25, 0.25]])


def commits(adaptor, tokens, coins, extra):
    return adaptor.verify(ROWS, DRAWN, torch.tensor(tokens), ScriptedCoins(coins, extra))


def check(adaptor):
    # target/draft is 2, then 0.8 for the second token: all accepted, then the last row's first third.
    assert commits(adaptor, [0, 1], [0.999, 0.79], 0.2) == [0, 1, 0]
    # The second is rejected; what is left of its row is token 2 alone.
    assert commits(adaptor, [0, 1], [0.999, 0.81], 0.2) == [0, 2]
    # The first is rejected at 0.5; what is left is token 0 alone.
    assert commits(adaptor, [1, 2], [0.51, 0.0], 0.9) == [0]


def test_transformers_commits_as_the_algorithm_says():
    check(load("transformers"))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["economize", "flashspec"])
def test_peers_commit_as_the_algorithm_says(name):
    check(load(name))


@pytest.mark.parametrize("name", ADAPTORS)
def test_missing_package_says_what_to_install(name, monkeypatch):
    def missing(package):
        raise metadata.PackageNotFoundError(package)

    monkeypatch.setattr(metadata, "version", missing)
    with pytest.raises(SpecproofError, match=rf"'{name}' is not installed.*pip install 'specproof\[peers\]'"):
        load(name)


def test_moved_module_names_the_version():
    with pytest.raises(SpecproofError, match=r"transformers 5\..* cannot be audited"):
        installed("transformers", "transformers.no_such_module")


def test_unknown_name_lists_the_known():
    with pytest.raises(SpecproofError, match="economize, flashspec, transformers"):
        load("vllm")


def test_transformers_without_the_function_is_refused(monkeypatch):
    monkeypatch.delattr(foreign, "_speculative_sampling")
    with pytest.raises(SpecproofError, match=r"has no generation\.utils\._speculative_sampling"):
        Transformers()


def test_transformers_lets_a_forbidden_token_through_at_a_coin_of_zero():
    # Unscripted: after this seed the first number of torch.rand is exactly 0. Fails once they repair it.
    target = torch.tensor([[[1.0, 0.0], [0.5, 0.5]]]).log()
    draft = torch.tensor([[[0.5, 0.5]]]).log()
    with torch.random.fork_rng():
        torch.manual_seed(5528393)
        assert torch.rand(1) == 0
        torch.manual_seed(5528393)
        committed, accepted = foreign._speculative_sampling(torch.tensor([[0, 1]]), draft, 1, target)
    assert int(accepted) == 1
    assert int(committed[0, 0]) == 1


def test_older_signature_of_transformers_is_bound_by_name(monkeypatch):
    real = foreign._speculative_sampling

    def older(candidate_input_ids, candidate_logits, candidate_length, new_logits, is_done_candidate):
        assert is_done_candidate is False
        return real(candidate_input_ids, candidate_logits, candidate_length, new_logits)

    monkeypatch.setattr(foreign, "_speculative_sampling", older)
    check(Transformers())
    with pytest.raises(SpecproofError, match="has no assistant_ensemble_weight"):
        Transformers(ensemble_weight=0.5)


def test_parameter_of_transformers_that_is_not_known_is_refused(monkeypatch):
    monkeypatch.setattr(foreign, "_speculative_sampling", lambda candidate_length, surprise: None)
    with pytest.raises(SpecproofError, match="needs 'surprise'"):
        Transformers()
