"""The sentences that lead through a worked example; the table and the picture tell it in the same words."""

from specproof.audit.worked import Mistake, WorkedExample
from specproof.cli.digits import equals, show

# Name of a mistake → heading, and what goes wrong.
MISTAKES = {
    "resample_target": (
        "Redraw from the target",
        "After a rejection the whole target row is used again. What both rows agree on was already kept once and "
        "is now paid for twice.",
    ),
    "absolute_difference": (
        "Redraw from |target − draft|",
        "Without the sign, tokens that the draft overrates are redrawn too. The output lands exactly halfway "
        "between target and draft.",
    ),
    "temperature": (
        "Rule told another temperature",
        "Tokens are drawn at temperature 0.5, but the rule is handed the row at temperature 1. It corrects for "
        "odds that nobody used.",
    ),
}


def propose(example: WorkedExample) -> str:
    """How the token comes about."""
    return "The draft draws one token from its own row."


def accept(example: WorkedExample) -> str:
    """The coin, and what is kept in all."""
    rule = "It is kept with chance min(1, ratio), where ratio = target ÷ draft. "
    if example.reject == 0:
        return f"{rule}These rows are equal, so every token is kept: no draft can do better."
    if example.reject == 1:
        return f"{rule}These rows share no token, so none is ever kept: no draft can do worse."
    return (
        f"{rule}Drafted and kept together has the probability min(target, draft), "
        f"{show(1 - example.reject)} over all tokens."
    )


def redraw(example: WorkedExample) -> str:
    """The residual, and why its sum cancels."""
    if example.reject == 0:
        return "Nothing is ever rejected: P(reject) = Z = 0, and there is no residual."
    rest = (
        f"After a rejection, {equals('P(reject)', example.reject)}, a token is drawn from the residual, "
        "(target − draft)⁺ divided by its sum Z. "
    )
    if example.reject == 1:
        return f"{rest}Here it is the target itself, so this is plain sampling from the target, at no gain."
    return f"{rest}That sum is the very same number (and the total variation between the rows), so the two cancel."


NEVER = "– the draft never proposes this token: it can only come from a redraw"


def recovered(example: WorkedExample) -> str:
    """The verdict."""
    if example.ok:
        return "Kept + redrawn is the target, exactly, on every token: lossless."
    return "Kept + redrawn is NOT the target: not lossless."


def mistake(wrong: Mistake) -> str:
    """What the mistake does, and whether it shows here."""
    sentence = MISTAKES[wrong.name][1]
    return f"{sentence} With these rows it does no harm." if wrong.ok else sentence
