"""Fingerprints are keys of the journal: those of version 0.1.0 stay, so that paid answers are found again."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import pytest

from tiltmeter.models import Message, create_model, model_of
from tiltmeter.models._function import digest_of
from tiltmeter.models._prompts import seed_of
from tiltmeter.models._text_models import text_keys

FUNCTIONS = '''"""Functions whose fingerprints are pinned."""

COUNT = 0
TABLE = {"a": [1, 2]}


def helper(number, times=3):
    return number * times


def answer(messages, sample=0, *, tone="good"):
    global COUNT
    COUNT += 1
    return f"{messages[-1]['content']} {tone} {sample} {helper(2)} {TABLE}"


class Answerer:
    def __init__(self, tone):
        self.tone, self.asked = tone, []

    def __call__(self, prompt):
        self.asked.append(prompt)
        return self.tone
'''
ANSWER = (
    "python/pinned_answers:answer"
    "@sha256:240eed9d5e6624f13398a2fc91da35c8b5baf37158a388eff7ccdc7faff22007 tone=x"
)
WEIGHTS = "sha256:9ec0cdbf409d290232d4880f3811897c2575ea24bc891a672ba9b1e4b6e9d9f5"


@pytest.fixture(autouse=True)
def _files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "weights").mkdir()
    for name, content in {
        "weights/config.json": "{}",
        "weights/model.safetensors": "weights",
        "weights/README.md": "no part of it",
        "r.csv": "prompt,answer\nA?,1\n",
        "pinned_answers.py": FUNCTIONS,
    }.items():
        (tmp_path / name).write_text(content, encoding="utf-8", newline="\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "pinned_answers", raising=False)
    importlib.invalidate_caches()
    for provider in ("OPENAI", "ANTHROPIC", "OLLAMA"):
        monkeypatch.setenv(f"{provider}_API_KEY", "key")
        monkeypatch.delenv(f"{provider}_BASE_URL", raising=False)


@pytest.mark.parametrize(
    ("spec", "base_url", "options", "fingerprint"),
    [
        ("openai/gpt-4o-mini", None, {}, "openai/gpt-4o-mini@https://api.openai.com/v1"),
        ("ollama/llama3.2", None, {}, "ollama/llama3.2@http://127.0.0.1:11434/v1"),
        ("compatible/a/b", "http://h:1/v1/", {}, "compatible/a/b@http://h:1/v1"),
        ("anthropic/claude", None, {}, "anthropic/claude@https://api.anthropic.com"),
        ("hf/weights", None, {"device": "cpu"}, f"hf/1 {WEIGHTS} float32 2>3 'X'"),
        (
            "hf/weights",
            None,
            {"dtype": "bfloat16", "source_layer": "1", "placeholder": "Y"},
            f"hf/1 {WEIGHTS} bfloat16 1>3 'Y'",
        ),
        ("hf/weights", None, {"runner": "vllm"}, f"hf-vllm/1 {WEIGHTS} auto"),
        (
            "replay/r.csv",
            None,
            {},
            "replay@sha256:e6768df33a5091c009aaf3d1c2a98e59c7e51dd2deb078d124209c97faaf52b2",
        ),
        ("python/pinned_answers:answer", None, {"tone": "x"}, ANSWER),
    ],
)
def test_models_keep_their_fingerprints(
    spec: str, base_url: str | None, options: dict[str, str], fingerprint: str
) -> None:
    assert create_model(spec, base_url=base_url, options=options).fingerprint == fingerprint


def test_values_vectors_and_seeds_keep_their_keys() -> None:
    assert (
        digest_of({"a": [1, 2.5, "x", None, True, b"y"], "s": {1, "a"}, "t": (1,)})
        == "e2cacfb45cae6e9447cd992b25bbade8"
    )
    keys = ["bb0e6f14c92b3965b774780a020ed3ac3e9cdbc2", "47a7badb69aab80258b796e4eb254a4d0e6b4c3b"]
    assert [key.hex() for key in text_keys("encoder/1 sha256:ab", ["a", "ü"])] == keys
    assert seed_of([Message("user", "Who?")], 5, 2) == 2616828716198184297
    assert seed_of([Message("user", "é")], None, 0) == 7408338290013935705


@pytest.mark.skipif(
    sys.version_info[:2] != (3, 11),
    reason="the bytecode of a function differs from one version of Python to the next",
)
def test_functions_keep_their_digests() -> None:
    pinned = importlib.import_module("pinned_answers")
    answer, answerer = model_of(pinned.answer, {"tone": ["a", 1]}), model_of(pinned.Answerer("kind"))
    assert (
        answer.fingerprint == "python/pinned_answers:answer#7586a9d7889d4bf1f3eb43a7859aa1c2"
        " tone=e42a3ee4ba2fbbfb3439577c89cb7800"
    )
    assert answerer.fingerprint == "python/pinned_answers:Answerer#38f72f3389a98b8c1d79cf185d456267 text"
