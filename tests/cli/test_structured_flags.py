"""Flags of structured output: definitions as text and as files, and what is refused."""

import pytest

from specproof.cli.flags import sampling_from
from specproof.cli.main import build_parser, main


def params(*flags):
    return sampling_from(build_parser().parse_args(["generate", "a", *map(str, flags)]))


def test_definitions_as_text_and_as_files(tmp_path):
    schema, lark = tmp_path / "schema.json", tmp_path / "list.lark"
    schema.write_text('{"type": "integer"}')
    lark.write_text('start: "é"\n', encoding="utf-8")
    assert params("--json-schema", schema).json_schema == '{"type": "integer"}'
    assert params("--json-schema", ' {"type": "null"}').json_schema == ' {"type": "null"}'
    assert params("--grammar", lark).grammar == 'start: "é"\n'
    assert params("--regex", "[a-z]+").regex == "[a-z]+"
    assert params().structure == {}


@pytest.mark.parametrize("flag", ["--json-schema", "--grammar"])
def test_a_file_that_is_not_there(flag, capsys):
    with pytest.raises(SystemExit) as stopped:
        main(["generate", "a", flag, "nowhere.txt"])
    err = capsys.readouterr().err
    assert stopped.value.code == 2
    assert "cannot read 'nowhere.txt'" in err
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--regex", "a", "--json-schema", "{}"], "json_schema and regex are not allowed together"),
        (["--regex", "a", "--ignore-eos"], "regex needs a token that ends the text"),
        (["--regex", "a"], "llguidance does not take this tokenizer"),  # one of whole words
    ],
)
def test_refused_in_one_line(flags, message, model_folder, capsys):
    assert main(["generate", "--model", model_folder, "--raw", "a", *flags]) == 2
    err = capsys.readouterr().err
    assert message in err
    assert err.count("\n") == 1
