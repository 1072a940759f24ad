"""A pytest plugin: `assert_lossless` and the fixture `lossless`, for the tests of other projects.

    def test_my_engine(lossless):
        lossless(my_engine, prompts=[[1, 2, 3]])

What can be audited: an `Engine` (or anything that makes one when called without arguments) by statistics, and a
verifier `verify(target, draft, tokens, coins)` by integrating its coins. Nothing of specproof but this file is
imported before a test asks for it, so runs of other tests are as quick as before.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from specproof.types import SamplingParams


def assert_lossless(
    subject: Any,
    *,
    prompts: Sequence[Sequence[int] | str] | None = None,
    params: SamplingParams | None = None,
    allow: Sequence[str] = (),
    **options: Any,
) -> Any:
    """Audit an engine or a verifier; an AssertionError with the whole report unless it is lossless.

    Args:
        subject: an `Engine`; a function without arguments that makes one; or a verifier (docs/adaptors.md): a
            function of target rows, draft rows, drafted tokens and coins that gives the committed tokens.
        prompts: of an engine, as tokens or as texts; a few tokens of its vocabulary by default.
        params: of an engine, as it is used.
        allow: verdicts that pass besides the lossless ones, such as "INCONCLUSIVE".
        options: of an engine: fields of `audit.white.plan.Plan`, such as tokens or alpha, and `reference`; of a
            verifier: samples and seed.

    Returns:
        The result, for further assertions.

    Raises:
        AssertionError: it is not lossless, or there is no answer; its text is the whole report.
        SpecproofError: what cannot be audited, or options that do nothing.
    """
    __tracebackhide__ = True
    arguments = {"prompts": prompts, "params": params, "options": options}
    result = _engine(_made(subject), arguments) if _is_engine(subject) else _verifier(subject, arguments)
    verdict = getattr(getattr(result, "verdict", None), "value", None)
    if not result.ok and verdict not in allow:
        raise AssertionError(str(result))
    return result


@pytest.fixture
def lossless() -> Callable[..., Any]:
    """`assert_lossless`, as a fixture."""
    return assert_lossless


def _is_engine(subject: Any) -> bool:
    """Whether it is an engine or makes one: a verifier takes arguments, and a factory takes none."""
    if hasattr(subject, "requests") and hasattr(subject, "run"):
        return True
    if not callable(subject):
        from specproof.errors import SpecproofError

        raise SpecproofError(
            f"{type(subject).__name__} cannot be audited: give an Engine, a function without arguments that makes "
            "one, or a verifier verify(target, draft, tokens, coins)"
        )
    return not inspect.signature(subject).parameters


def _made(subject: Any) -> Any:
    return subject if hasattr(subject, "requests") else subject()


def _engine(engine: Any, arguments: dict[str, Any]) -> Any:
    from dataclasses import fields

    from specproof.audit.white.plan import Plan
    from specproof.audit.white.run import audit_white
    from specproof.errors import SpecproofError
    from specproof.types import SamplingParams

    options = dict(arguments["options"])
    reference, known = options.pop("reference", None), [field.name for field in fields(Plan)]
    if unknown := [name for name in options if name not in known]:
        raise SpecproofError(f"unknown option {unknown[0]!r}; choose from: {', '.join(known)}, reference")
    prompts = arguments["prompts"] or [[token % engine.target.vocabulary] for token in (1, 2, 3)]
    tokens = [engine.tokenizer.encode(each) if isinstance(each, str) else list(each) for each in prompts]
    params = arguments["params"] or SamplingParams()
    return audit_white(engine, tokens, params, Plan(**options), reference=reference)


def _verifier(verify: Any, arguments: dict[str, Any]) -> Any:
    from specproof.audit.sampled import audit_verifier
    from specproof.errors import SpecproofError

    options = arguments["options"]
    given = [name for name in ("prompts", "params") if arguments[name] is not None]
    if foreign := given + [name for name in options if name not in ("samples", "seed")]:
        raise SpecproofError(f"{foreign[0]} does nothing for a verifier: leave it out; it takes samples and seed")
    return audit_verifier(verify, getattr(verify, "__name__", type(verify).__name__), **options)
