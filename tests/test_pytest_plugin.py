"""The pytest plugin as another project uses it: three lines that pass, and that fail on a planted fault."""

import pytest

pytest_plugins = ["pytester"]

ENGINE = """
import torch
from specproof.audit.mutants import rows
from specproof.backends.table import TableBackend, TableModel
from specproof.drafters.model import ModelDrafter
from specproof.engine.engine import Engine
from specproof.pytest_plugin import assert_lossless

def model(seed):
    return TableModel.random(5, 1, torch.Generator().manual_seed(seed))

def engine():
    return Engine(TableBackend(model(0)), ModelDrafter(TableBackend(model(1)), 2), "rejection", max_batch=64)

def redrawing():
    return rows.resample_from_target(engine())
"""
SIZES = "tokens=600, at_once=32, length=16, draws=0, detect=0.5"


@pytest.fixture
def run(pytester):
    """Run tests of another project in this process; the plugin is theirs by its entry point, or by name."""

    def inner(body):
        pytester.makepyfile(ENGINE + body)
        return pytester.runpytest_inprocess("-p", "specproof.pytest_plugin", "-p", "no:cacheprovider", "-q")

    return inner


def test_three_lines_pass_on_a_correct_engine(run):
    """False alarms: alpha is 1e-5, and the seed is fixed."""
    result = run(f"""
def test_mine(lossless):
    result = lossless(engine, alpha=1e-5, {SIZES})
    assert result.verdict.value == "LOSSLESS"
""")
    result.assert_outcomes(passed=1)


def test_they_fail_on_a_planted_fault_and_show_the_report(run):
    result = run(f"""
def test_mine(lossless):
    lossless(redrawing, {SIZES})

def test_by_function():
    assert_lossless(redrawing(), prompts=[[1, 2]], {SIZES})
""")
    result.assert_outcomes(failed=2)
    result.stdout.fnmatch_lines(["*BIASED: engine with drafter ModelDrafter*"])
    result.stdout.fnmatch_lines(["*plan *"])


def test_no_answer_fails_unless_it_is_allowed(run):
    result = run("""
SMALL = dict(tokens=40, at_once=2, length=16, draws=0, detect=0.01)

def test_strict(lossless):
    lossless(engine, **SMALL)

def test_lenient(lossless):
    lossless(engine, allow=["INCONCLUSIVE"], **SMALL)
""")
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["*INCONCLUSIVE: *"])


def test_a_verifier_that_keeps_everything_fails(run):
    result = run("""
def everything(target, drawn, tokens, coins):
    return [*tokens.tolist(), int(coins.multinomial(target[-1:]))]

def test_mine(lossless):
    lossless(everything, samples=1000)
""")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*NOT LOSSLESS: everything*"])


@pytest.mark.parametrize(
    ("call", "words"),
    [
        ("lossless(7)", "int cannot be audited: give an Engine"),
        ("lossless(engine, token=5)", "unknown option 'token'"),
        ("lossless(lambda a, b, c, d: [1], prompts=[[1]])", "prompts does nothing for a verifier"),
    ],
)
def test_wrong_use_is_one_line(run, call, words):
    result = run(f"""
def test_mine(lossless):
    {call}
""")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines([f"*SpecproofError: {words}*"])
