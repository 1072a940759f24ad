"""The Coq files as texts, and the page that lists their theorems; needs no Coq."""

import re

import coq

ROOT = coq.PROOFS.parent
PAGE = (ROOT / "docs" / "theorems.md").read_text()
# Ways to have a theorem without a proof.
GAPS = r"\b(Admitted|admit|give_up|Axioms?|Conjectures?|Parameters?|Unset|bypass_check)\b"


def without_comments(text):
    while (shorter := re.sub(r"\(\*(?:(?!\(\*|\*\)).)*\*\)", "", text, flags=re.S)) != text:
        text = shorter
    return text


def test_no_proof_has_a_gap():
    assert coq.files()
    for file in coq.files():
        text = without_comments(file.read_text())
        assert not re.search(GAPS, text), file
        # Outside a section these would be axioms.
        for command in re.finditer(r"^\s*(?:Variables?|Hypothes[ie]s|Context)\b", text, re.M):
            before = text[: command.start()]
            assert len(re.findall(r"^Section ", before, re.M)) > len(re.findall(r"^End ", before, re.M)), file


def test_gaps_would_be_seen():
    assert re.search(GAPS, without_comments("Lemma a : b. (* Qed. *) Admitted."))
    assert not re.search(GAPS, without_comments("(* no (* Axiom *) Admitted *) Qed."))


def test_every_file_is_compiled():
    listed = (coq.PROOFS / "_CoqProject").read_text().split()[3:]
    assert sorted(listed) == sorted(str(file.relative_to(coq.PROOFS)) for file in coq.files())


def test_the_page_lists_every_theorem_and_no_other():
    listed: dict[str, set[str]] = {}
    for names, file in re.findall(r"^\| [^|]*\| ([^|]*)\| \[(\w+)\]\(\.\./proofs/\2\.v\)", PAGE, re.M):
        listed.setdefault(file, set()).update(re.findall(r"`(\w+)`", names))
    proved = {module: set(names) for module, names in coq.theorems().items()}
    assert listed == proved


def test_what_the_page_points_to_exists():
    links = re.findall(r"\]\(((?!http)[^)#]+)\)", PAGE)
    assert len(links) > 20
    for link in links:
        assert (ROOT / "docs" / link).is_file(), link
