"""What is read of a file, what is refused, and how a text must have ended."""

import json

import pytest
from written import END, PARAMS, folded, policy, table, write

from specproof.audit.rollouts.plan import RolloutPlan
from specproof.audit.rollouts.policy import params_of, whole_output
from specproof.audit.rollouts.read import Rollout, read_rollouts, rollouts_of
from specproof.audit.rollouts.run import audit_rollouts
from specproof.audit.rollouts.scoring import Checkpoints
from specproof.errors import SpecproofError
from specproof.types import SamplingParams


def test_lines_lists_and_parquet_are_the_same(tmp_path):
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    texts = list(write(table(), 5, told=folded))
    lines, whole, columns = tmp_path / "a.jsonl", tmp_path / "a.json", tmp_path / "a.parquet"
    lines.write_text("\n".join(map(json.dumps, texts)))
    whole.write_text(json.dumps(texts))
    rows = [text | {"params": json.dumps(text["params"]), "reward": 1.0} for text in texts]
    parquet.write_table(pyarrow.Table.from_pylist(rows), columns)
    assert read_rollouts(lines) == read_rollouts(whole)
    assert read_rollouts(columns).texts == read_rollouts(lines).texts
    assert read_rollouts(columns).unread == ("reward",)
    folder = tmp_path / "run"
    folder.mkdir()
    parquet.write_table(pyarrow.Table.from_pylist(rows[3:]), folder / "part-00001.parquet")
    parquet.write_table(pyarrow.Table.from_pylist(rows[:3]), folder / "part-00000.parquet")
    assert read_rollouts(folder) == read_rollouts(columns)


GOOD = {"prompt_ids": [1], "completion_ids": [2, 3], "params": PARAMS, "finish_reason": "length"}
BAD = {
    "no tokens": ({"completion_ids": None}, "has no completion_ids"),
    "no numbers": ({"prompt_ids": "a b"}, "give a list of numbers"),
    "half a token": ({"completion_ids": [1.5]}, "whole numbers"),
    "too few logprobs": ({"logprobs": [-1.0]}, "1 logprobs for 2 tokens"),
    "nan": ({"logprobs": [-1.0, float("nan")]}, "nan"),
    "unknown end": ({"finish_reason": "bored"}, "finish_reason 'bored'"),
    "params": ({"params": "hot"}, "no JSON object"),
}


@pytest.mark.parametrize("name", BAD)
def test_what_is_wrong_is_said(name):
    given, words = BAD[name]
    with pytest.raises(SpecproofError, match=words):
        rollouts_of([GOOD | given])


def test_files_that_are_none(tmp_path):
    (tmp_path / "a.jsonl").write_text("not JSON")
    (tmp_path / "a.parquet").write_text("not Parquet")
    (tmp_path / "b.jsonl").write_text("")
    for name in ("a.jsonl", "a.parquet", "b.jsonl", "c.jsonl"):
        with pytest.raises(SpecproofError):
            read_rollouts(tmp_path / name)


def start(**params):
    return policy(table()).start([1], SamplingParams(**params))


def ended(tokens, reason=None, limited=False, **params):
    text = Rollout(0, 0, (1,), tuple(tokens), reason, **params.pop("own", {}))
    return whole_output(text, start(**params), limited)


def test_how_texts_end():
    assert ended([2, END], "stop") == ([2, END], False)
    assert ended([2, 3], "stop") == ([2, 3, END], True)
    assert ended([2, 3], "length") == ([2, 3], False)
    assert ended([2, END]) == ([2, END], False)
    assert ended([2, 3], limited=True, max_tokens=2) == ([2, 3], False)
    assert ended([2, 3], "stop", stop_token_ids=(3,)) == ([2, 3], False)
    assert ended([2, 3], ignore_eos=True) == ([2, 3], False)
    assert ended([2, 3, 4], "length", own={"updates": ((2, 7),)}) == ([2, 3], False)
    with pytest.raises(SpecproofError, match="finish_reason"):
        ended([2, 3])


def test_parameters_of_other_engines():
    assert params_of({"top_k": -1, "max_new_tokens": 5, "seed": 3, "n": 4, "regex": None}) == SamplingParams(
        max_tokens=5
    )
    assert params_of({"logit_bias": {"3": 1}}).logit_bias == {3: 1.0}
    with pytest.raises(SpecproofError, match="unknown sampling parameter"):
        params_of({"best_of": 2})


def test_one_version_one_model():
    texts = [text | {"target_version": version} for version, text in enumerate(write(table(), 2))]
    with pytest.raises(SpecproofError, match="target versions 0, 1"):
        audit_rollouts(rollouts_of(texts), Checkpoints(policy(table())), RolloutPlan())
    bare = [{name: text[name] for name in ("prompt_ids", "completion_ids")} for text in write(table(), 2)]
    with pytest.raises(SpecproofError, match="no params"):
        audit_rollouts(rollouts_of(bare), Checkpoints(policy(table())), RolloutPlan())


def test_an_end_token_that_the_model_does_not_know():
    """It must not be taken for a text whose end token was left out, which the model would hardly believe."""
    texts = [GOOD | {"prompt": n, "completion_ids": [1 + n % 3, 7], "finish_reason": "stop"} for n in range(9)]
    with pytest.raises(SpecproofError, match=r'"stop_token_ids": \[7\]'):
        audit_rollouts(rollouts_of(texts), Checkpoints(policy(table())), RolloutPlan())
    known = [text | {"params": PARAMS | {"stop_token_ids": [7]}} for text in texts]
    result = audit_rollouts(rollouts_of(known), Checkpoints(policy(table())), RolloutPlan())
    assert not any("not in completion_ids" in note for note in result.seen.notes)


def test_ends_that_nobody_can_tell_apart_are_one():
    """Two end tokens, none written down: as likely together as their row says."""
    from specproof.audit.rollouts.policy import Policy
    from specproof.backends.table import TableBackend

    texts = list(write(table(), 6, keep_end=False))
    two = Policy(TableBackend(table()), eos=(END, 5))
    texts = [text for text in texts if 5 not in text["completion_ids"]]
    result = audit_rollouts(rollouts_of(texts), Checkpoints(two), RolloutPlan())
    assert result.seen.bets.forbidden == 0
    assert any("not in completion_ids" in note for note in result.seen.notes)
