"""The page in a real headless Chromium: every view works, its numbers are the server's, and the keyboard suffices.

Needs the extra `page-tests` and a Chromium, the system's or Playwright's own.
"""

import json
import re
import shutil
from importlib.util import find_spec

import httpx
import pytest

from specproof.audit.worked import worked_example
from specproof.backends.hf import HFBackend
from specproof.cli.explain import as_dict
from specproof.drafters.model import ModelDrafter
from specproof.testing.tiny import tiny_model
from specproof.tree import Tree

from .conftest import serving
from .test_page_api import DRAFT, TARGET, events

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        find_spec("playwright") is None, reason="the extra page-tests is not installed: make test-page"
    ),
]
PROMPT = "a b c a b c a b"


@pytest.fixture(scope="module")
def base(make_engine):
    drafter = ModelDrafter(HFBackend(tiny_model("llama", 8, 1)), Tree.levels((2, 1)), "without_replacement")
    with serving(make_engine(drafter, adaptive=False)) as address:
        yield address


@pytest.fixture(scope="module")
def browser():
    from playwright.sync_api import sync_playwright

    system = shutil.which("chromium") or shutil.which("chromium-browser")
    with sync_playwright() as playwright:
        made = playwright.chromium.launch(executable_path=system, args=["--no-sandbox"])
        yield made
        made.close()


@pytest.fixture
def faults():
    return []


@pytest.fixture
def page(browser, base, faults):
    """The page, whose console has to stay silent and whose requests stay at home."""
    made = browser.new_page(viewport={"width": 1320, "height": 900})
    made.set_default_timeout(20_000)
    made.on(
        "console", lambda message: faults.append(message.text) if message.type in ("error", "warning") else None
    )
    made.on("pageerror", lambda error: faults.append(str(error)))
    made.on("request", lambda sent: None if sent.url.startswith(base) else faults.append(sent.url))
    made.goto(base)
    made.wait_for_selector("#watch-prompt")
    yield made
    made.close()
    assert faults == []


def eventually(page, selector, pattern):
    from playwright.sync_api import expect

    expect(page.locator(selector)).to_have_text(re.compile(pattern), timeout=20_000)


def run(page, temperature, seed):
    page.fill("#watch-prompt", PROMPT)
    page.uncheck("[name=chat]")
    page.locator("#watch-temperature").fill(str(temperature))
    page.fill("#watch-seed", str(seed))
    page.locator("#watch-max_tokens").fill("24")
    page.click("#watch-form [type=submit]")
    eventually(page, "#equality", "Both texts|texts differ")


def test_watch_shows_what_the_endpoint_says(page, base):
    run(page, 0.5, 1)
    with httpx.Client(base_url=base, timeout=30) as http:
        *steps, done = events(http, prompt=PROMPT, temperature=0.5, seed=1, max_tokens=24)
    tokens = [token for event in steps for token in event["step"]["tokens"]]
    shown = page.locator("#run-speculative .text .token")
    assert [node.split()[-1] for node in shown.evaluate_all("all => all.map((n) => n.className)")] == [
        token["kind"] for token in tokens
    ]
    labels = shown.evaluate_all("all => all.map((n) => n.getAttribute('aria-label'))")
    for label, token in zip(labels, tokens, strict=True):
        assert f"target {token['target']:.3f}" in label or "<0.001" in label or ">0.999" in label
    text = page.locator("#run-speculative .text").inner_text().replace("∅", "")
    assert text.split() == done["done"]["text"].split()
    facts = page.locator("#run-speculative .facts dd").all_inner_texts()
    assert facts[0] == f"{done['stats']['tokens_per_forward']:.2f}"
    assert facts[2] == f"{done['stats']['acceptance']:.2f}"
    said = page.inner_text("#run-speculative .run-head .note")
    assert said.startswith(f"{done['stats']['tokens']} tokens in {done['stats']['steps']} forwards, ")
    assert page.locator(".step").count() == len(steps)
    depths = page.locator("#by-depth tbody tr td:last-child").all_inner_texts()
    assert depths == [f"{value:.2f}" for value in done["stats"]["acceptance_by_depth"].values()]
    # The rule of this server is coupling: the same seed gives the same text.
    assert "Both texts are equal, as they must be" in page.inner_text("#equality")
    assert page.inner_text("#run-plain .text") == page.inner_text("#run-speculative .text")


def test_steps_open_their_trees_and_arrow_keys_move(page):
    run(page, 1, 2)
    page.locator(".step").first.focus()
    page.keyboard.press("End")
    last = page.locator(".step").count()
    assert f"Step {last}:" in page.inner_text(".tree-title")
    page.keyboard.press("Home")
    page.keyboard.press("ArrowRight")
    assert "Step 2:" in page.inner_text(".tree-title")
    assert page.locator(".step[aria-pressed=true]").get_attribute("data-step") == "1"
    drafted = int(re.search(r"(\d+) drafted, (\d+) accepted", page.inner_text(".tree-title")).group(1))
    assert page.locator(".tree .node").count() == drafted + 1
    # A token says its fate where it has the focus, and Enter opens its step.
    page.locator("#run-speculative .text .token").first.focus()
    page.keyboard.press("ArrowRight")
    assert re.search("target [0-9.<>]+, (draft|no draft)", page.inner_text("#run-speculative .detail"))
    page.keyboard.press("Home")
    page.keyboard.press("Enter")
    assert "Step 1:" in page.inner_text(".tree-title")


def test_a_refusal_is_shown_and_the_form_goes_on(page, faults):
    page.fill("#watch-prompt", "a " * 100)
    page.uncheck("[name=chat]")
    page.click("#watch-form [type=submit]")
    eventually(page, "#watch-error", "the prompt has 100 tokens")
    assert len(faults) == 1
    assert "400 (Bad Request)" in faults.pop()  # the browser reports it by itself
    run(page, 0, 1)


def law(base, **body):
    rows = {"target": ["6/10", "3/10", "1/10"], "draft": ["4/10", "5/10", "1/10"]}
    return httpx.post(f"{base}/specproof/law", json=rows | body).json()


def column(page, name):
    heads = page.locator("#lab-table thead th").all_inner_texts()
    return page.locator(f"#lab-table tbody tr > :nth-child({heads.index(name) + 1})").all_inner_texts()


def test_the_lab_shows_the_law_and_mistakes_drift(page, base):
    page.click("#tab-lab")
    eventually(page, "#lab-verdict", "Lossless.*0, exactly")
    found = law(base)
    assert column(page, "comes out") == [f"{mass:.3f}" for mass in found["law"]]
    assert column(page, "min") == [f"{mass:.3f}" for mass in found["minimum"]["float"]]
    for mistake in ("resample_target", "absolute_difference", "temperature", "soft_row", "lenience"):
        page.click(f"[data-mistake={mistake}]")
        found = law(base, mistake=mistake)
        eventually(page, "#lab-verdict", f"Not lossless.*Total variation {found['exact_tv']}")
        assert column(page, "comes out") == [f"{mass:.3f}" for mass in found["law"]]
        assert page.locator("#lab-chart .off:not(:empty)").count() > 0
        page.click(f"[data-mistake={mistake}]")
    eventually(page, "#lab-verdict", "Lossless")


def test_every_rule_can_be_chosen_and_closes_if_it_is_lossless(page, base):
    page.click("#tab-lab")
    for rule in httpx.get(f"{base}/specproof/about").json()["rules"]:
        page.select_option("#lab-rule", rule["name"])
        page.locator("#lab-drafts").evaluate(
            "n => { n.value = [...n.options].filter(o => !o.disabled).at(-1).value;"
            " n.dispatchEvent(new Event('change')) }"
        )
        eventually(page, "#lab-about", re.escape(rule["paper"]))
        lossless = "✓ Lossless" if rule["claim"] == "EXACT" else "✓ No harm|✗ Not lossless"
        eventually(page, "#lab-verdict", lossless)


def test_bars_are_pulled_by_mouse_and_by_keyboard(page, base):
    page.click("#tab-lab")
    handle = page.locator("[data-row=target][data-token='0']")
    handle.focus()
    page.keyboard.press("ArrowUp")
    page.keyboard.press("PageDown")
    assert handle.get_attribute("aria-valuetext") == "0.510"
    found = law(base, target=["510/1000", "368/1000", "122/1000"])
    eventually(page, "#lab-table tbody tr:first-child td:nth-child(2)", "0.510")
    assert column(page, "target") == [f"{mass:.3f}" for mass in found["target"]["float"]]
    assert column(page, "redrawn") == [f"{mass:.3f}" for mass in found["redrawn"]]
    # Up to 1 and back to where it was leaves the others where they were.
    for key in ("End", "PageDown", "PageDown", "PageDown", "PageDown"):
        page.keyboard.press(key)
    eventually(page, "#lab-table tbody tr:nth-child(2) td:nth-child(2)", "0.300")
    draft = page.locator("[data-row=draft][data-token='1'] .knob")
    draft.scroll_into_view_if_needed()
    box = draft.bounding_box()
    page.mouse.move(box["x"] + 5, box["y"] + 3)
    page.mouse.down()
    page.mouse.move(box["x"] + 5, box["y"] + 80, steps=4)
    page.mouse.up()
    assert 0.2 < float(page.locator("[data-row=draft][data-token='1']").get_attribute("aria-valuenow")) < 0.45
    eventually(page, "#lab-verdict", "Lossless")
    rows = [sum(float(x) for x in column(page, name)) for name in ("target", "draft", "comes out")]
    assert rows == pytest.approx([1, 1, 1], abs=1e-9)
    page.locator("#lab-size").fill("8")
    eventually(page, "#lab-table tbody tr:last-child th", "ant")


def test_drawing_counts_rounds(page):
    page.click("#tab-lab")
    page.click("#lab-draw")
    eventually(page, "#lab-drawn-words", "^500 rounds: seen TV")
    page.click("#lab-draw")
    eventually(page, "#lab-drawn-words", "^1,000 rounds: seen TV")
    assert page.locator(".seen[visibility=visible]").count() == 3


def test_audits_run_here_and_reports_are_drawn(page, tmp_path):
    page.click("#tab-audit")
    page.select_option("#audit-rule", "block")
    page.fill("#audit-instances", "3")
    page.click("#audit-form button")
    eventually(page, "#audit-status", "EXACT: block")
    assert "✓ EXACT" in page.inner_text(".report")
    report = tmp_path / "explained.json"
    report.write_text(json.dumps(as_dict(worked_example(TARGET, DRAFT, ["cat", "dog", "fish"]))))
    wrong = tmp_path / "wrong.json"
    wrong.write_text("{}")
    page.set_input_files("#audit-file", [report])
    eventually(page, ".report >> nth=0", "P\\(refused\\) = 2/5.*what comes out is the target, exactly")
    page.set_input_files("#audit-file", [wrong])
    eventually(page, "#audit-status", "wrong.json is no report that can be drawn")
    assert page.locator(".report").count() == 2


def test_tabs_and_theme_by_keyboard(page):
    page.locator("#tab-watch").focus()
    page.keyboard.press("ArrowRight")
    assert page.locator("#lab").is_visible()
    assert page.locator("#tab-lab").get_attribute("aria-selected") == "true"
    page.keyboard.press("End")
    assert page.locator("#audit").is_visible()
    assert page.url.endswith("#audit")

    def background():
        return page.evaluate("getComputedStyle(document.body).backgroundColor")

    light = background()
    page.locator("#theme").focus()
    page.keyboard.press("Enter")
    assert background() == light
    page.keyboard.press("Enter")
    assert background() != light
    page.reload()
    page.wait_for_selector("#watch-prompt", state="attached")
    assert page.inner_text("#theme") == "Theme: dark"


def test_a_key_is_asked_for_and_kept(browser, make_engine):
    with serving(make_engine(), key="secret") as base:
        page = browser.new_page()
        page.goto(base)
        page.fill("#key", "secret")
        page.keyboard.press("Enter")
        page.wait_for_selector("#watch-prompt")
        assert "tiny" in page.inner_text("#served")
        page.close()


@pytest.mark.parametrize("width", [1320, 420])
@pytest.mark.parametrize("view", ["watch", "lab", "audit"])
def test_no_view_is_wider_than_the_window(page, view, width):
    page.set_viewport_size({"width": width, "height": 900})
    page.click(f"#tab-{view}")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
