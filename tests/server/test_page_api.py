"""The endpoints behind the page: every number equals what the Python functions give, and bounds are held."""

import json
import math

import httpx
import pytest

from specproof.audit.compare import compare
from specproof.audit.document import rules_document
from specproof.audit.first_token import MISTAKES, first_token, sample_first, sound
from specproof.audit.given import parse_row
from specproof.audit.rules import audit_rule
from specproof.audit.worked import worked_example
from specproof.backends.hf import HFBackend
from specproof.drafters.model import ModelDrafter
from specproof.rules import RULES
from specproof.testing.tiny import tiny_model
from specproof.tree import Tree
from specproof.types import SamplingParams

from .conftest import serving

PROMPT = "a b c a b c a b"
ROWS = {"target": ["6/10", "3/10", "1/10"], "draft": ["1/5", 0.5, 0.3]}
TARGET, DRAFT = parse_row("6/10,3/10,1/10", "target"), parse_row("1/5,0.5,0.3", "draft")


@pytest.fixture(scope="module")
def steady(make_engine):
    """A server that always drafts as far as it may: draft lengths do not hang on the clock."""
    with serving(make_engine(adaptive=False)) as base, httpx.Client(base_url=base, timeout=30) as made:
        yield made


def events(http, **body):
    with http.stream("POST", "/specproof/watch", json={"prompt": PROMPT} | body) as answer:
        assert answer.status_code == 200, answer.read()
        return [json.loads(line.removeprefix("data: ")) for line in answer.iter_lines() if line]


@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("chat", [False, True])
def test_a_watched_text_is_the_text_with_the_probabilities_of_its_logprobs(steady, make_engine, seed, chat):
    params = SamplingParams(temperature=0.8, top_p=0.95, seed=seed, max_tokens=24, logprobs=0)
    prompt = PROMPT + " " if chat else PROMPT  # the template adds a space
    (expected,) = make_engine(adaptive=False).generate([prompt], params)
    *steps, done = events(steady, temperature=0.8, top_p=0.95, seed=seed, max_tokens=24, chat=chat)
    tokens = [token for event in steps for token in event["step"]["tokens"]]
    assert [token["token"] for token in tokens] == list(expected.tokens)
    assert [math.log(token["target"]) for token in tokens] == pytest.approx([e.logprob for e in expected.logprobs])
    assert "".join(token["text"] for token in tokens) + done["done"]["rest"] == expected.text
    assert done["done"]["text"] == expected.text
    assert (done["done"]["seed"], done["done"]["finish_reason"]) == (seed, expected.finish_reason)
    accepted = sum(token["kind"] == "accepted" for token in tokens)
    assert done["stats"]["accepted"] == expected.stats.accepted == accepted
    assert done["stats"]["tokens"] == len(tokens)
    assert [event["stats"]["steps"] for event in steps] == list(range(1, len(steps) + 1))
    assert done["stats"]["acceptance_by_depth"] == {
        str(k): v for k, v in expected.stats.acceptance_by_depth.items()
    }


def test_coupling_gives_the_same_text_without_speculation(steady):
    asked = {"seed": 1, "max_tokens": 40, "temperature": 0.5}
    *steps, with_it = events(steady, **asked)
    *plain, without = events(steady, **asked, speculation={"enabled": False})
    assert with_it["done"]["text"] == without["done"]["text"]
    assert with_it["stats"]["drafted"] > 0 == without["stats"]["drafted"]
    assert {token["kind"] for event in plain for token in event["step"]["tokens"]} == {"plain"}
    reasons = [event["step"]["reason"] for event in steps]
    assert with_it["stats"]["unspeculated"] == {r: reasons.count(r) for r in sorted({*reasons} - {None})}
    seconds = [sum(event["step"]["seconds"]) for event in steps]
    assert with_it["stats"]["seconds"] == pytest.approx(sum(seconds))
    assert len(plain) == without["stats"]["tokens"] > len(steps)


def test_a_budget_bounds_the_tree(steady):
    *steps, _ = events(steady, seed=1, max_tokens=24, speculation={"budget": 2})
    assert max(len(event["step"]["parents"]) for event in steps) == 2


def test_trees_come_with_both_probabilities(make_engine):
    drafter = ModelDrafter(HFBackend(tiny_model("llama", 8, 1)), Tree.levels((2, 2)), "without_replacement")
    with serving(make_engine(drafter, adaptive=False)) as base, httpx.Client(base_url=base, timeout=30) as http:
        *steps, _ = events(http, seed=1, max_tokens=16)
        about = http.get("/specproof/about").json()
    assert about["drawn"] == "without_replacement"
    first = steps[0]["step"]
    assert first["parents"] == [-1, -1, 0, 1, 0, 1]
    assert all(0 < node["draft"] <= 1 and 0 <= node["target"] <= 1 for node in first["drafted"])


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"max_tokens": 0}, "max_tokens: "),
        ({"temperature": -1}, "temperature=-1.0"),
        ({"prompt": ""}, "the prompt is empty"),
        ({"wath": 1}, "unknown field: wath"),
        ({"speculation": {"drafter": "magic"}}, "speculation.drafter='magic'"),
    ],
)
def test_what_cannot_be_watched_is_refused_in_one_line(http, body, message):
    refused(http.post("/specproof/watch", json={"prompt": "a"} | body), message)


def refused(answer, message):
    assert answer.status_code == 400
    said = answer.json()["error"]["message"]
    assert message in said
    assert "\n" not in said


def test_the_law_of_every_rule_equals_the_function(http):
    about = {rule["name"]: rule for rule in http.get("/specproof/about").json()["rules"]}
    assert set(about) == {rule.name for rule in RULES.values() if rule.usable}
    for name, rule in about.items():
        for takes in rule["takes"]:
            for drafts in takes["drafts"]:
                body = ROWS | {"rule": name, "drawn": takes["drawn"], "shape": takes["shape"], "drafts": drafts}
                tree = Tree.chain(drafts) if takes["shape"] == "chain" else Tree.levels((drafts,))
                same_law(http.post("/specproof/law", json=body).json(), RULES[name], tree, takes["drawn"])


def same_law(found, rule, tree, drawn):
    expected = first_token(sound(rule, TARGET, DRAFT, tree, drawn))
    assert found["kept"] == [list(row) for row in expected.kept]
    assert found["redrawn"] == list(expected.redrawn)
    assert found["law"] == list(expected.law)
    assert (found["tv"], found["accepted"]) == (expected.tv, expected.accepted)
    assert found["exact_tv"] == (None if expected.exact_tv is None else str(expected.exact_tv))
    assert (found["lossless"], found["claim"]) == (expected.tv <= 1e-12, rule.claim)


def test_rows_are_worked_through_in_fractions(http):
    example = worked_example(TARGET, DRAFT)
    found = http.post("/specproof/law", json=ROWS | {"names": ["cat", "dog", "fish"]}).json()
    assert found["names"] == ["cat", "dog", "fish"]
    for name in ("target", "draft", "minimum", "excess", "residual"):
        assert found[name]["exact"] == [str(mass) for mass in getattr(example, name)]
    assert found["z"]["exact"] == found["distance"]["exact"] == str(example.z)


@pytest.mark.parametrize("mistake", list(MISTAKES))
def test_a_mistake_drifts_as_the_function_says(http, mistake):
    setting = MISTAKES[mistake](TARGET, DRAFT)
    found = http.post("/specproof/law", json=ROWS | {"mistake": mistake}).json()
    expected = first_token(setting)
    assert found["law"] == list(expected.law)
    assert found["exact_tv"] == str(expected.exact_tv)
    assert not found["lossless"]
    drawn = http.post("/specproof/law/sample", json=ROWS | {"mistake": mistake, "samples": 200, "seed": 7}).json()
    assert drawn == {"counts": list(sample_first(setting, 200, 7)), "samples": 200}


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"target": ["1/9"] * 9, "draft": ["1/9"] * 9}, "the target row has 9 entries: give 2 to 8"),
        ({"target": [1], "draft": [1]}, "the target row has 1 entries"),
        ({"target": [0.5, 0.5]}, "the target row has 2 entries and the draft row 3"),
        ({"target": [0.5, 0.5, 0.5]}, "sums to 3/2, not exactly 1"),
        ({"target": ["x", 0, 1]}, "target entry 1 is 'x'"),
        ({"drafts": 4, "rule": "walk"}, "drafts=4 is not allowed: give 1 to 3"),
        ({"rule": "magic"}, "unknown rule 'magic'"),
        ({"rule": "dropmatch"}, "is for audits only"),
        ({"rule": "rejection", "drafts": 2}, "does not take iid trees"),
        ({"rule": "kseq", "drawn": "point"}, "does not take point"),
        ({"mistake": "magic"}, "mistake: "),
        (
            {"mistake": "temperature", "drafts": 2, "rule": "walk"},
            "is made with rule 'rejection' and one iid draft",
        ),
        (
            {"rule": "siblings", "drawn": "without_replacement", "drafts": 3, "draft": [0, 0.5, 0.5]},
            "2 tokens with mass",
        ),
        ({"names": ["a", "a", "b"]}, "two tokens are named 'a'"),
    ],
)
def test_what_the_lab_cannot_work_is_refused_in_one_line(http, body, message):
    refused(http.post("/specproof/law", json=ROWS | body), message)


def test_samples_are_bounded(http):
    refused(http.post("/specproof/law/sample", json=ROWS | {"samples": 10**6}), "samples: ")
    refused(http.post("/specproof/law/sample", json=ROWS | {"target": [1, 1, 1]}), "sums to 3")


def test_an_audit_is_the_one_of_the_command_line(http):
    found = http.post("/specproof/audit/rule/lenience:0.5?instances=3&seed=2").json()
    rule = RULES["lenience"]
    expected = rules_document([audit_rule(rule, 3, 2)], compare([rule], 2))
    expected[0]["rule"], expected[0]["rounds"] = "lenience:0.5", found[0]["rounds"]
    assert found[0]["tv"] == expected[0]["tv"] > 0
    assert found[0]["verdict"] == "LOSSY"
    plain = http.post("/specproof/audit/rule/block?instances=3&seed=2").json()
    block = RULES["block"]
    assert plain == json.loads(json.dumps(rules_document([audit_rule(block, 3, 2)], compare([block], 2))))


def test_audits_are_bounded_and_name_what_is_wrong(http):
    refused(http.post("/specproof/audit/rule/block?instances=1000"), "instances: ")
    refused(http.post("/specproof/audit/rule/magic"), "unknown rule 'magic'")


def test_page_and_files_load_nothing_from_elsewhere(http):
    page = http.get("/")
    assert page.headers["content-security-policy"].startswith("default-src 'self'")
    assert "//" not in page.text
    for name in ("main.js", "base.css", "icon.svg"):
        assert f"/page/{name}" in page.text
        answer = http.get(f"/page/{name}")
        assert answer.headers["content-security-policy"].startswith("default-src 'self'")
    assert http.get("/page/main.js").headers["content-type"].startswith("text/javascript")
    assert http.get("/page/%2e%2e/app.py").status_code == 404


def test_a_key_guards_the_endpoints_and_not_the_page(make_engine):
    with serving(make_engine(), key="secret") as base, httpx.Client(base_url=base) as http:
        assert http.get("/").status_code == http.get("/page/main.js").status_code == 200
        assert http.get("/specproof/about").status_code == 401
        assert http.post("/specproof/law", json=ROWS).status_code == 401
        opened = http.get("/specproof/about", headers={"Authorization": "Bearer secret"})
        assert opened.json()["model"] == "tiny"
