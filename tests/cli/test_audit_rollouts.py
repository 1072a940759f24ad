"""`audit rollouts` on trajectories of our own worker: exit codes, JSON, a page."""

import json

import pytest

from specproof.cli.main import main
from specproof.engine.loading import load_engine
from specproof.types import SamplingParams


@pytest.fixture(scope="module")
def written(model_folder):
    """Trajectories of an engine that speculates, as JSON lines."""
    worker = pytest.importorskip("specproof.rollout.worker")
    engine = load_engine(model_folder, drafter="early_exit", dtype="float64")
    worker = worker.RolloutWorker(engine)
    params = SamplingParams(temperature=0.8, top_k=6, seed=1, max_tokens=16)
    return [one.as_dict() for one in worker.rollout([[1, 2], [3], [4, 5, 6]], params, 12)]


@pytest.fixture
def audit(capsys, tmp_path, model_folder):
    def run(rows, *argv):
        file = tmp_path / "rollouts.jsonl"
        file.write_text("\n".join(map(json.dumps, rows)))
        code = main(["audit", "rollouts", str(file), "--model", model_folder, "--dtype", "float64", *argv])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run


def test_our_own_trajectories_pass(audit, written, tmp_path):
    page = tmp_path / "page.html"
    code, out, err = audit(written, "--plain", "--detect", "0.5", "--json", "--html", str(page))
    document = json.loads(out)
    assert (code, document["verdict"], document["kind"]) == (0, "LOSSLESS", "rollouts"), document["reason"]
    assert document["digest"] in err, "the plan is printed before"
    by_column = {}
    for row in document["tables"][0]["rows"]:
        by_column.setdefault(row[0], row[2])
    assert by_column == {"logprobs": "folded", "raw_logprobs": "tempered"}
    assert "LOSSLESS: audit rollouts" in page.read_text()


def test_speculation_without_rows_of_the_draft_is_no_answer(audit, written):
    code, out, _ = audit(written, "--detect", "0.5")
    assert code == 3
    assert "--draft-model" in out


def test_another_temperature_is_biased(audit, written):
    code, out, _ = audit(written, "--params", '{"temperature": 0.3, "top_k": 6}')
    assert code == 1
    assert out.startswith("BIASED: ")


@pytest.mark.parametrize("argv", [["--logprobs", "odd"], ["--alpha", "2"]])
def test_wrong_use_is_2(audit, written, argv):
    assert audit(written, *argv)[0] == 2


def test_params_that_are_no_object(audit, written):
    with pytest.raises(SystemExit, match="2"):
        audit(written, "--params", "[]")
