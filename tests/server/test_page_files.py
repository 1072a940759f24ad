"""The page is a handful of small files without a build step."""

import re
from pathlib import Path

import pytest

import specproof.server.site as site

FILES = sorted(site.PAGE.iterdir())


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_files_are_small_and_need_nobody(path):
    text = path.read_text(encoding="utf-8")
    assert text.count("\n") < 300
    # A namespace is a name, not an address that is fetched.
    assert not re.findall(r"(?:https?:)?//(?!www\.w3\.org/)[a-z][\w.-]*\.[a-z]", text), "an address elsewhere"
    for imported in re.findall(r'from "(/page/[^"]+)"', text):
        assert (site.PAGE / Path(imported).name).is_file()


def test_files_are_package_data():
    import tomllib

    root = Path(__file__).parents[2]
    data = tomllib.loads((root / "pyproject.toml").read_text())["tool"]["setuptools"]["package-data"]["specproof"]
    packed = {path for pattern in data for path in (root / "src" / "specproof").glob(pattern)}
    assert set(FILES) <= packed
