"""Instruction prompts by templates, all written for this project: kinds of task times things they are about."""

from __future__ import annotations

import random
from itertools import product
from pathlib import Path

from specproof.errors import SpecproofError

_TOPICS = (
    "photosynthesis", "the water cycle", "compound interest", "black holes", "volcanoes", "the immune system",
    "supply and demand", "the French Revolution", "tides", "vaccines", "recycling", "the printing press",
    "electric cars", "honeybees", "sleep", "glaciers", "the stock market", "coral reefs", "chess openings",
    "bread baking", "solar panels", "earthquakes", "the Silk Road", "migration of birds", "public libraries",
    "gravity", "the human heart", "inflation", "the Roman Empire", "wind power", "antibiotics", "the ocean floor",
    "computer networks", "probability", "soil", "the Moon", "jazz", "democracy", "bridges", "the periodic table",
    "rice farming", "optical lenses", "memory", "the Renaissance", "deserts", "insurance", "cryptography",
    "whales", "the alphabet", "running a marathon", "cheese", "satellites", "DNA", "the stock of a shop", "rivers",
    "photography", "urban planning", "the scientific method", "nutrition", "the Industrial Revolution",
)  # fmt: skip
_ASKING = (
    "Explain {} in simple words.",
    "What are the three most important facts about {}?",
    "Write a short paragraph about {} for a school newsletter.",
    "Give a numbered list of five common questions about {}, each with a short answer.",
    "What do people often get wrong about {}?",
)
_OBJECTS = (
    "a stack",
    "a bank account",
    "a shopping list",
    "a temperature log",
    "a queue",
    "a phone book",
    "a deck of cards",
    "a bus timetable",
    "a word counter",
    "a matrix",
    "a binary tree",
    "a to-do list",
    "a chess board",
    "a file cache",
    "a grade book",
    "a linked list",
    "a parking garage",
    "a date range",
)
_CODING = (
    "Write a Python class for {} with an example of its use.",
    "Write a Python function that reads {} from a CSV file and prints a summary.",
    "Write unit tests in Python for {}.",
)
_SCENES = (
    "a lighthouse in winter", "a market at dawn", "two friends who miss a train", "a robot that learns to paint",
    "a lost umbrella", "the last day of school", "a village without clocks", "a message in a bottle",
    "a cat that guards a bakery", "an old map", "the first snow", "a letter that arrives too late",
    "a train that never stops", "two rival chefs", "a garden on the roof", "a storm at sea", "a talking clock",
    "a girl who collects stones", "the night watchman", "a journey to the desert", "a broken violin",
    "an island with one inhabitant", "the inventor's daughter", "a library that opens at midnight",
)  # fmt: skip
_WRITING = (
    "Write the beginning of a story about {}.",
    "Write a poem of eight lines about {}.",
    "Describe {} in two sentences.",
    "Write a dialogue between two people about {}.",
)
_TASKS = (
    "ask for a day off", "thank a colleague", "complain about a late delivery", "invite friends to dinner",
    "cancel a subscription", "apply for a summer job", "apologise for a mistake", "ask the way to the museum",
    "announce a team meeting", "recommend a restaurant", "ask for a refund", "congratulate a friend",
    "decline an invitation", "rent a flat", "report a broken lamp", "introduce a new colleague",
    "remind a customer of a payment", "ask a teacher for help", "order flowers", "plan a weekend trip",
)  # fmt: skip
_LETTERS = ("Write a polite email to {}.", "Write a short text message to {}.", "Write a formal letter to {}.")
_NUMBERS = ((3, 5), (7, 4), (12, 9), (15, 6), (8, 11), (20, 13), (6, 14), (9, 16))
_SUMS = (
    "A shop sells {} apples in the morning and {} in the afternoon. How many are sold in a day? Think in steps.",
    "A train stops {} times and waits {} minutes at each stop. How long does it wait in all? Show your work.",
    "There are {} red and {} blue marbles in a bag. What share of them is red? Explain.",
)
_PHRASES = (
    "Good morning, how did you sleep?", "The meeting starts at nine.", "I would like a cup of tea, please.",
    "Where is the nearest station?", "She has read this book twice.", "We are going to the sea in July.",
    "It rained all night and the river rose.", "Thank you for your patience.",
)  # fmt: skip
_CHANGES = (
    "Translate into French: {}",
    "Translate into Spanish: {}",
    "Rewrite in the past tense: {}",
    "Repeat this sentence three times: {}",
    "Write this as JSON with the keys text and words: {}",
)
_KINDS = (
    (_ASKING, _TOPICS), (_CODING, _OBJECTS), (_WRITING, _SCENES), (_LETTERS, _TASKS), (_SUMS, _NUMBERS),
    (_CHANGES, _PHRASES),
)  # fmt: skip


def built_in_prompts() -> list[str]:
    """All combinations, in one fixed order that mixes the kinds."""
    made = []
    for templates, things in _KINDS:
        for template, thing in product(templates, things):
            made.append(template.format(*thing) if isinstance(thing, tuple) else template.format(thing))
    random.Random(0).shuffle(made)
    return made


def read_prompts(path: Path) -> list[str]:
    """Prompts of a file, one a line; empty lines are passed over."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise SpecproofError(
            f"cannot read --prompts {path}: {error}; name a text file, one prompt a line"
        ) from error
    prompts = [line.strip() for line in lines if line.strip()]
    if not prompts:
        raise SpecproofError(f"--prompts {path} holds no prompt: give one a line")
    return prompts
