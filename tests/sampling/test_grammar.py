"""Masks of structured output, for every row of a tree, against trying all continuations."""

import json
import random

import pytest
import torch
from grammar_cases import END, PATTERNS, allowed, letters, reachable

from specproof.errors import SpecproofError
from specproof.sampling.grammar import Grammar, compile_grammar
from specproof.tree import Tree
from specproof.types import Contexts, SamplingParams, TokenSequence

PROMPT = [2, 2]  # no beginning of any text: the grammar is about the output alone
WIDTH = 7  # two numbers more than there are tokens, as in a padded model
A, B, C, AB = 1, 2, 3, 4


@pytest.fixture(scope="module")
def tokenizer():
    return letters()


def regex(pattern, tokenizer):
    return compile_grammar("regex", pattern, tokenizer, {END})


def contexts(output, tree=None, drafted=(), first=0):
    sequence = TokenSequence(PROMPT + output, len(PROMPT), SamplingParams(), 0, frozenset({END}))
    return Contexts(sequence, tree or Tree(()), drafted, first)


def kept(grammar, around, width=WIDTH):
    """The tokens that are left in each row."""
    rows = len(around.tree) + 1 - around.first
    logits = grammar(torch.zeros(rows, width), around)
    return [set(row.isfinite().nonzero()[:, 0].tolist()) for row in logits]


def expected(pattern, around, width=WIDTH):
    output = around.sequence.output
    paths = [around.path(row) for row in range(len(around.tree) + 1 - around.first)]
    everything = set(range(width))
    return [allowed(pattern, output + p) if reachable(pattern, output, p) else everything for p in paths]


def check_random_trees(grammar, pattern, count):
    """Trees with forbidden, ending and unknown tokens, after outputs that grow as an engine's do."""
    chance = random.Random(0)
    output = []
    for _ in range(count):
        size = chance.randrange(7)
        tree = Tree(tuple(chance.randrange(-1, node) for node in range(size)))
        drafted = [chance.choice([A, B, C, AB, A, B, C, AB, END, -1, 6, 9]) for _ in range(size)]
        around = contexts(output, tree, drafted, chance.randrange(size + 1))
        assert kept(grammar, around) == expected(pattern, around), (output, tree, drafted)
        fresh = regex(pattern, letters_once())
        assert kept(grammar, contexts(output)) == kept(fresh, contexts(output))
        longer = sorted(allowed(pattern, output) - {END})
        output = [*output, chance.choice(longer)] if longer and chance.random() < 0.9 else []


def letters_once(made=[]):  # noqa: B006 - one tokenizer for all fresh matchers
    if not made:
        made.append(letters())
    return made[0]


@pytest.mark.parametrize("pattern", PATTERNS)
def test_every_row_has_the_mask_of_its_own_state(pattern, tokenizer):
    check_random_trees(regex(pattern, tokenizer), pattern, 100)


class TestB40:
    """Drafts [a, b, x], [not a token], []: every row, the bonus included, after the tokens before it."""

    @pytest.mark.parametrize("drafted", [[A, B, -1], [A, B, A], [A, B, C], [-1], [9], []])
    def test_rows_of_a_chain(self, drafted, tokenizer):
        grammar = regex("(ab)*c", tokenizer)
        for output in ([], [A], [A, B], [AB, A, B]):
            around = contexts(output, Tree.chain(len(drafted)), drafted)
            assert kept(grammar, around) == expected("(ab)*c", around)

    def test_bonus_row_by_hand(self, tokenizer):
        rows = kept(regex("(ab)*c", tokenizer), contexts([], Tree.chain(3), [A, B, -1]))
        assert rows[:3] == [{A, AB, C}, {B}, {A, AB, C}]

    def test_a_round_leaves_the_state_of_the_committed_tokens(self, tokenizer):
        grammar = regex("(ab)*c", tokenizer)
        kept(grammar, contexts([A], Tree.chain(3), [B, A, B]))  # then b, a are accepted and the third is not
        fresh = regex("(ab)*c", tokenizer)
        assert kept(grammar, contexts([A, B, A])) == kept(fresh, contexts([A, B, A])) == [{B}]

    def test_forks_are_dropped_on_rejection(self, tokenizer):
        grammar = regex("(ab)*c", tokenizer)
        kept(grammar, contexts([], Tree((-1, -1, 0, 1)), [A, C, B, END]))
        assert kept(grammar, contexts([AB])) == [{A, AB, C}]

    def test_vllm_9423_sglang_9187_29110_no_token_is_consumed_twice(self, tokenizer):
        grammar = regex("a{1,3}b*", tokenizer)
        for _ in range(3):  # target and drafter ask in the same step
            assert kept(grammar, contexts([A, A])) == [{A, B, AB, END}]
        assert kept(grammar, contexts([A, A], Tree.chain(1), [A])) == [{A, B, AB, END}, {B, END}]
        assert kept(grammar, contexts([A, A, A])) == [{B, END}]

    def test_sglang_15373_nothing_is_asked_after_the_end(self, tokenizer):
        grammar = regex("(ab)*c", tokenizer)
        everything = set(range(WIDTH))
        around = contexts([AB], Tree.chain(4), [C, END, A, B])
        assert kept(grammar, around) == [{A, AB, C}, {END}, everything, everything, everything]
        assert kept(grammar, contexts([AB, C])) == [{END}]


class Unmasked(Grammar):
    """Fault: the bonus row inherits no mask."""

    def __call__(self, logits, contexts):
        last = logits[-1].clone()
        return torch.cat([super().__call__(logits, contexts)[:-1], last[None]])


class NeverBack(Grammar):
    """Fault: the matcher is not rolled back between branches."""

    def _walk(self, path):
        self._path += self._consume(path[len(self._path) :])
        return True


class Twice(Grammar):
    """Fault: committed tokens are consumed at every call."""

    def _follow(self, output):
        self._output = []
        return super()._follow(output)


@pytest.mark.parametrize("fault", [Unmasked, NeverBack, Twice])
def test_faults_are_caught(fault, tokenizer):
    sound = regex("(ab)*c", tokenizer)
    with pytest.raises(AssertionError):
        check_random_trees(fault("regex", sound._start, sound._text, {END}), "(ab)*c", 100)


def test_a_sequence_may_begin_again(tokenizer):
    grammar = regex("(ab)*c", tokenizer)
    for output in ([A, B, C], [], [AB, A], [A]):
        assert kept(grammar, contexts(output)) == [allowed("(ab)*c", output)]


def test_sequences_share_no_state(tokenizer):
    first, second = regex("(ab)*c", tokenizer), regex("(ab)*c", tokenizer)
    kept(first, contexts([A]))
    assert kept(second, contexts([])) == [{A, AB, C}]
    assert kept(first, contexts([A])) == [{B}]


@pytest.mark.parametrize("width", [2, 3, 5, 40])
def test_a_model_may_have_fewer_or_more_tokens(width, tokenizer):
    grammar = regex("(ab)*c?", tokenizer)
    assert kept(grammar, contexts([]), width) == [{END, A, C, AB} & set(range(width))]


def test_special_tokens_are_no_text():
    tokenizer = letters(special=["<sep>", "<stop>"])
    grammar = compile_grammar("regex", ".*", tokenizer, {6})
    # Of the three special tokens only that which ends this text may come, not the tokenizer's own.
    assert kept(grammar, contexts([A])) == [{A, B, C, AB, 6}]


def test_an_end_token_is_no_text_either(tokenizer):
    grammar = compile_grammar("regex", "a*(bc)?", tokenizer, {END, B})
    assert kept(grammar, contexts([A])) == [{A, AB, END, B}]
    assert kept(compile_grammar("regex", "bc|c", tokenizer, {END, B}), contexts([])) == [{C}]


def test_where_nothing_fits_the_row_is_forbidden_and_says_so(tokenizer):
    grammar = regex("a(x|yb)|c", tokenizer)
    assert kept(grammar, contexts([], Tree((-1, -1)), [A, C])) == [{A, C}, set(), {END}]
    assert "regex" in grammar.fault
    assert kept(grammar, contexts([C])) == [{END}]
    assert kept(grammar, contexts([B])) == [set()]
    assert "no beginning" in grammar.fault


def test_kinds_of_definitions(tokenizer):
    lark = compile_grammar("grammar", 'start: "a" rest?\nrest: "b" | "c" start', tokenizer, {END})
    assert kept(lark, contexts([], Tree.chain(2), [A, C])) == [{A, AB}, {B, C, END}, {A, AB}]
    assert kept(compile_grammar("regex", "", tokenizer, {END}), contexts([])) == [{END}]


@pytest.mark.parametrize(
    ("kind", "definition", "message"),
    [
        ("regex", "(ab", "unclosed group"),
        ("regex", "a(?=b)", "look-around"),
        ("grammar", "start: foo", "unknown name"),
        ("grammar", "", "no start rule"),
        ("json_schema", '{"type": "objekt"}', "objekt"),
        ("json_schema", {"type": "array", "uniqueItems": True}, "uniqueItems"),
        ("json_schema", {"type": "string", "description": "x" * 999, "minLength": "2"}, "minLength"),
        ("json_schema", "{bad", "double quotes"),
        ("json_schema", "[]", "object or boolean"),
    ],
)
def test_errors_name_the_definition_in_one_line(kind, definition, message, tokenizer):
    with pytest.raises(SpecproofError, match=message) as error:
        compile_grammar(kind, definition, tokenizer, {END})
    assert str(error.value).startswith(f"{kind}=")
    assert "\n" not in str(error.value)
    assert len(str(error.value)) < 300


def test_what_it_needs(tokenizer, word_tokenizer):
    with pytest.raises(SpecproofError, match="ends the text"):
        compile_grammar("regex", "a", tokenizer, ())
    with pytest.raises(SpecproofError, match="needs a tokenizer"):
        compile_grammar("regex", "a", None, {END})
    with pytest.raises(SpecproofError, match="decoder"):
        compile_grammar("regex", "a", word_tokenizer, {END})


def test_json_schema_over_bytes():
    tokenizer = byte_tokenizer()
    schema = {"type": "object", "properties": {"name": {"type": "string"}, "age": {"type": "integer"}}}
    schema |= {"required": ["name", "age"], "additionalProperties": False}
    grammar = compile_grammar("json_schema", json.dumps(schema), tokenizer, {END})
    end = tokenizer.convert_tokens_to_ids("<end>")
    sound = tokenizer.encode('{"name": "Zoë \\" }", "age": -12}')
    for length in range(len(sound) + 1):
        (row,) = kept(grammar, contexts(sound[:length]), len(tokenizer))
        assert row == {end} if length == len(sound) else sound[length] in row
    for wrong in ('{"age', '{"name": 1', '{"name": "a", "age": "', '{"name": "a"}', "[", '{"name": "\n'):
        *before, last = tokenizer.encode(wrong)
        assert last not in kept(grammar, contexts(before), len(tokenizer))[0]


def byte_tokenizer():
    """Every byte is a token."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    inner = Tokenizer(models.BPE({"<end>": END} | {c: i + 1 for i, c in enumerate(alphabet)}, []))
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    inner.decoder = decoders.ByteLevel()
    inner.add_special_tokens(["<end>"])
    return PreTrainedTokenizerFast(tokenizer_object=inner, eos_token="<end>")
