"""Twenty prompts of several kinds, written for this project: what real-model audits run over."""

PROMPTS: tuple[str, ...] = (
    "Explain in a few sentences why the sky is blue.",
    "Write the beginning of a story about a lighthouse keeper who finds a map.",
    "List five things to check before a long bicycle ride.",
    "Repeat exactly: the quick brown fox jumps over the lazy dog, the quick brown fox jumps over the lazy dog.",
    "Write a Python function that returns the moving average of a list.",
    "What is the difference between a virus and a bacterium?",
    "Summarise in one sentence: The harbour was rebuilt after the storm of 1907. Its new wall held in every "
    "winter since, but the fishing fleet that it was built for had moved away within a generation.",
    "Translate into French: The train leaves at noon and arrives before dark.",
    "A box holds 3 red and 5 blue balls. Two are drawn. What is the chance that both are blue? Think in steps.",
    "Give three arguments for and three against working from home.",
    "Continue the list: January, February, March,",
    "Write a polite letter asking a neighbour to keep the noise down at night.",
    "Turn this into JSON: name Marta Olsen, city Bergen, score 88.5; name Tomas Novak, city Brno, score 91.",
    "Describe the taste of a lemon to somebody who has never eaten one.",
    "Who was Ada Lovelace, and what is she remembered for?",
    "Write a haiku about snow on a railway line.",
    "Fix the mistakes: She dont like going too the market on sundays becaus its crowded.",
    "Explain what a hash table is to a ten-year-old.",
    "Plan a simple vegetarian dinner for four people, with a shopping list.",
    "Count from one to thirty in words.",
)
