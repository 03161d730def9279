"""Finding and loading models: folders, the cache of the hub, fingerprints, and errors of missing models."""

from __future__ import annotations

import json
import shutil
import socket
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from support.answering import answers, enter
from support.programs import run_code
from support.tiny_models import save_chat_model, tokenizer
from tiltmeter.errors import InputError, ProviderError
from tiltmeter.models import Model, Sampling, _weights as weights, create_model, sampling_from_options

Make = Callable[..., Path]


def test_a_local_model_is_a_model(chat_model: Make) -> None:
    model = create_model(f"hf/{chat_model()}")
    assert isinstance(model, Model)
    assert (model.name, model.endpoint, getattr(model, "local", False)) == (
        f"hf/{chat_model()}",
        model.name,
        True,
    )


def test_the_fingerprint_is_what_is_in_the_folder_not_where_it_is(chat_model: Make, tmp_path: Path) -> None:
    def print_of(folder: Path, **options: str) -> str:
        return create_model(f"hf/{folder}", options=options).fingerprint

    folder = chat_model()
    assert str(folder) not in print_of(folder)
    moved = shutil.copytree(folder, tmp_path / "moved")
    (moved / "README.md").write_text("notes change nothing")
    for options in ({}, {"device": "cpu"}, {"batch_size": "3"}, {"dtype": "float32"}):
        assert print_of(moved, **options) == print_of(folder)
    fingerprints = {print_of(folder), print_of(chat_model(seed=1))}
    for options in (
        {"dtype": "bfloat16"},
        {"source_layer": "1"},
        {"target_layer": "2"},
        {"placeholder": "Y"},
    ):
        fingerprints.add(print_of(moved, **options))
    (moved / "generation_config.json").write_text("{}")
    assert len({*fingerprints, print_of(moved)}) == 7


def test_options_are_taken_and_the_rest_is_sampling() -> None:
    options = {
        "batch_size": "8",
        "dtype": "float16",
        "temperature": "0.9",
        "frequency_penalty": "0.6",
        "source_layer": "1",
    }
    fields, model_options = sampling_from_options("hf/somewhere", options)
    assert fields == {"temperature": 0.9, "extra": {"frequency_penalty": 0.6}}
    assert model_options == {"batch_size": "8", "dtype": "float16", "source_layer": "1"}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"batch_size": "0"}, "batch_size=0: give a whole number of 1 or more"),
        ({"source_layer": "-1"}, "source_layer=-1: give a whole number of 0 or more"),
        ({"dtype": "int8"}, "dtype=int8: use one of auto, float32, bfloat16, float16"),
        ({"device": "gpu"}, "device=gpu: use auto, cpu, cuda, cuda:N or mps"),
        ({"trust_remote_code": "true"}, "hf has no option trust_remote_code"),
        ({"placeholder": " "}, "placeholder=: give a value"),
        ({"revision": "main"}, "is a local folder, which has no revisions"),
    ],
)
def test_wrong_options_of_a_local_model_are_refused(
    chat_model: Make, options: dict[str, str], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        create_model(f"hf/{chat_model()}", options=options)


def test_a_device_that_does_not_exist_is_refused(chat_model: Make) -> None:
    with pytest.raises(ProviderError, match="device=cuda:63: torch finds only cpu"):
        enter(create_model(f"hf/{chat_model()}", options={"device": "cuda:63", "dtype": "float32"}))


def test_folders_without_a_model_are_refused(chat_model: Make, tmp_path: Path) -> None:
    pickled = shutil.copytree(chat_model(), tmp_path / "pickled")
    (pickled / "model.safetensors").rename(pickled / "pytorch_model.bin")
    for name, files in {
        "empty": [],
        "bare": ["model.safetensors"],
        "odd": ["model.safetensors", "config.json"],
    }.items():
        (tmp_path / name).mkdir()
        for file in files:
            (tmp_path / name / file).write_text("{not json")
    for name, message in {
        "/nowhere/at/all": "'/nowhere/at/all' is neither an existing model folder",
        "empty": r"contains no weights \(\*\.safetensors\)",
        "bare": r"contains no config\.json",
        "odd": r"config\.json cannot be read as JSON",
        "pickled": r"contains no weights \(\*\.safetensors\)",
    }.items():
        with pytest.raises(InputError, match=message):
            create_model(f"hf/{tmp_path / name}")


def test_a_model_that_cannot_be_loaded_says_why(chat_model: Make, tmp_path: Path) -> None:
    from transformers import BertConfig, BertModel, T5Config, T5ForConditionalGeneration

    small = BertConfig(
        vocab_size=400,
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=16,
        is_decoder=True,
    )
    BertModel(small).save_pretrained(tmp_path / "encoder")
    translator = T5Config(vocab_size=400, d_model=16, d_kv=8, d_ff=16, num_layers=1, num_heads=2)
    T5ForConditionalGeneration(translator).save_pretrained(tmp_path / "t5")
    for name in ("encoder", "t5"):
        tokenizer().save_pretrained(tmp_path / name)
    damaged = shutil.copytree(chat_model(), tmp_path / "damaged")
    (damaged / "model.safetensors").write_bytes((damaged / "model.safetensors").read_bytes()[:1000])
    own_code = shutil.copytree(chat_model(), tmp_path / "own_code")
    config = json.loads((own_code / "config.json").read_text())
    config |= {
        "model_type": "mine",
        "auto_map": {"AutoConfig": "evil.Config", "AutoModelForCausalLM": "evil.Model"},
    }
    (own_code / "config.json").write_text(json.dumps(config))
    (own_code / "evil.py").write_text("import pathlib; pathlib.Path('run').write_text('x')")
    for name in ("encoder", "t5", "damaged", "own_code"):
        sentences = (
            "is not a causal language model: it lacks weights such as"
            if name == "encoder"
            else "cannot be loaded as a causal language"
        )
        with pytest.raises(InputError, match=sentences):
            enter(create_model(f"hf/{tmp_path / name}"))


def test_a_model_of_the_hub_is_known_by_its_commit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Load from the cache of the hub, as on a machine without network."""
    from huggingface_hub import constants

    commit = "0123456789abcdef0123456789abcdef01234567"
    repository = tmp_path / "models--org--tiny"
    save_chat_model(repository / "snapshots" / commit)
    (repository / "refs").mkdir()
    (repository / "refs" / "main").write_text(commit)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr(weights, "_hub_answers", lambda: False)
    model = create_model("hf/org/tiny", options={"device": "cpu"})
    assert model.fingerprint == f"hf/1 org/tiny@{commit} float32 2>3 'X'"
    assert answers(model, ["Who?"], Sampling(temperature=0.0, max_tokens=4))[0].output_tokens
    for name, options in (("org/other", {}), ("org/tiny", {"revision": "v9"})):
        with pytest.raises(
            ProviderError, match=r"neither a folder nor in the local cache.*give the path of a folder"
        ):
            create_model(f"hf/{name}", options=options)


def test_without_network_the_hub_is_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    from huggingface_hub import constants

    for variable in ("http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setattr(constants, "ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    connect = socket.create_connection
    limits: list[float] = []

    def noted(address: tuple[str, int], timeout: float) -> socket.socket:
        limits.append(timeout)
        return connect(address, timeout)

    monkeypatch.setattr(socket, "create_connection", noted)
    begun = time.monotonic()
    assert not weights._hub_answers.__wrapped__()
    assert time.monotonic() - begun < 30  # a client that retries takes minutes
    assert limits == [5.0]
    monkeypatch.setenv("http_proxy", "http://proxy.invalid:1")
    assert weights._hub_answers.__wrapped__(), "behind a proxy only the client can know"
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    assert not weights._hub_answers.__wrapped__()


WITHOUT_EXTRA = """
import sys
from pathlib import Path
for name in ("torch", "transformers", "sentence_transformers"):
    sys.modules[name] = None
from tiltmeter.errors import ProviderError
from tiltmeter.models import create_model
from tiltmeter.models._text_models import SentenceEncoder, TextClassifier
for use in (
    lambda: create_model("hf/x"),
    lambda: SentenceEncoder("x", store=None),
    lambda: TextClassifier(Path("x"), store=None),
):
    try:
        use()
    except ProviderError as error:
        assert 'pip install "tiltmeter[local]"' in str(error), error
        print("said so")
"""


def test_without_the_extra_the_error_says_what_to_install() -> None:
    assert run_code(WITHOUT_EXTRA).stdout == "said so\n" * 3
