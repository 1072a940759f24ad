"""`audit drafter`: built-in ones on tiny models and on folders, a user's own, wrong flags."""

import json
import textwrap

import pytest

from specproof.cli.main import main

OWN = """
    import torch
    from specproof.drafters.model import ModelDrafter
    from specproof.types import Draft

    class Right(ModelDrafter):
        pass

    class Wrong(ModelDrafter):
        '''Draws from its rows, and returns flat ones.'''

        def draft(self, batch, budget, noise):
            draft = super().draft(batch, budget, noise)
            if draft.rows is None:
                return draft
            return Draft(draft.trees, draft.tokens, torch.full_like(draft.rows, 1 / draft.rows.shape[-1]), "iid")
"""


@pytest.fixture
def audit(capsys):
    def run(*argv):
        code = main(["audit", "drafter", *argv])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run


@pytest.fixture
def own(tmp_path, monkeypatch):
    (tmp_path / "own_drafters.py").write_text(textwrap.dedent(OWN))
    monkeypatch.chdir(tmp_path)


def test_a_drafter_of_the_package(audit):
    code, out, _ = audit("ngram", "--json")
    document = json.loads(out)
    assert (code, document["kind"], document["verdict"]) == (0, "drafter", "EXACT")


def test_a_draft_model_on_a_folder(audit, model_folder, draft_folder):
    code, out, err = audit("model", "--model", model_folder, "--draft-model", draft_folder)
    assert code == 0, out
    assert out.startswith("EXACT: drafter model: every draft has the probability")
    assert f"{model_folder}: 512 drafts sampled" in err


@pytest.mark.usefixtures("own")
def test_a_users_own(audit, model_folder, draft_folder):
    code, out, _ = audit("own_drafters:Right", "--model", model_folder, "--draft-model", draft_folder)
    assert code == 0, out
    code, out, _ = audit("own_drafters:Wrong", "--model", model_folder, "--draft-model", draft_folder)
    assert code == 1, out
    assert "not drawn from the rows that come with it" in out


@pytest.mark.usefixtures("own")
@pytest.mark.parametrize(
    ("argv", "match"),
    [
        (["medium"], "unknown drafter 'medium'"),
        (["own_drafters:Absent"], "module 'own_drafters' has no class 'Absent': give MODULE:CLASS"),
        (["nowhere_at_all:Absent"], "no module 'nowhere_at_all'"),
        (["model", "--draft-model", "x"], "--draft-model needs the model"),
        (["ngram", "--alpha", "2"], "--alpha 2.0 is not allowed"),
        (["tree-iid", "--model", "x"], "is of the tiny suite"),
    ],
)
def test_wrong_use_is_named(audit, argv, match, model_folder):
    code, _, err = audit(*[model_folder if word == "x" and "--model" in argv else word for word in argv])
    assert code == 2
    assert match in err
