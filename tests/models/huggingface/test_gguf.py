"""GGUF files: their contents, the copy in the cache, their fingerprint, and errors of damaged files."""

from __future__ import annotations

import errno
import json
import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lazy_loader
import pytest

from conftest import Tiltmeter
from support.answering import answers, enter
from support.programs import run_code, start_code
from support.tiny_models import save_gguf
from tiltmeter.errors import InputError, ProviderError
from tiltmeter.models import Completion, Model, Sampling, create_model

torch: Any = lazy_loader.load("torch")

Make = Callable[..., Path]
PROMPTS = ["Tell me a story", "the nurse " * 30, "x"]
GREEDY = Sampling(temperature=0.0, max_tokens=12)


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TILTMETER_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "gguf"


@pytest.fixture(scope="session")
def gguf_file(chat_model: Make, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_gguf(tmp_path_factory.mktemp("gguf") / "tiny.gguf", chat_model())


def local(path: Path, **options: str) -> Model:
    return create_model(f"hf/{path}", options=options)


def copies(cache: Path) -> list[Path]:
    return sorted(path for path in cache.iterdir() if path.is_dir())


def without_latency(completions: list[Completion]) -> list[tuple[Any, ...]]:
    return [
        (completion.text, completion.finish_reason, completion.input_tokens, completion.output_tokens)
        for completion in completions
    ]


def test_a_file_answers_as_the_folder_that_it_was_made_from(chat_model: Make, gguf_file: Path) -> None:
    arguments = (PROMPTS, Sampling(temperature=1.0, max_tokens=12, seed=3), range(3))
    assert without_latency(answers(local(gguf_file), *arguments)) == without_latency(
        answers(local(chat_model()), *arguments)
    )


def test_quantised_weights_are_those_of_the_file(chat_model: Make, tmp_path: Path, cache: Path) -> None:
    import gguf
    from safetensors.torch import load_file

    file = save_gguf(tmp_path / "small.gguf", chat_model(), quantised="Q4_1")
    enter(local(file))
    (copy,) = copies(cache)
    weights = load_file(copy / "model.safetensors")
    stored = {
        tensor.name: gguf.quants.dequantize(tensor.data, tensor.tensor_type)
        for tensor in gguf.GGUFReader(file).tensors
    }
    for name, module in (
        ("ffn_up", "mlp.up_proj"),
        ("attn_v", "self_attn.v_proj"),
        ("attn_norm", "input_layernorm"),
    ):
        for layer in range(4):
            values = weights[f"model.layers.{layer}.{module}.weight"].to(torch.float32)
            assert torch.equal(values.flatten(), torch.tensor(stored[f"blk.{layer}.{name}.weight"]).flatten())
    types = {str(values.dtype) for values in weights.values()}
    assert types == {"torch.float32", "torch.bfloat16"}, "norms of one are exact in 16 bits"


def test_the_copy_is_made_once_and_belongs_to_the_content(
    chat_model: Make, gguf_file: Path, tmp_path: Path, cache: Path
) -> None:
    moved = shutil.copyfile(gguf_file, tmp_path / "moved.gguf")
    (tmp_path / "config.json").write_text("{not json")
    (tmp_path / "tokenizer_config.json").write_text("{not json")
    first, second = local(gguf_file), local(moved)
    assert first.fingerprint == second.fingerprint
    assert str(gguf_file) not in first.fingerprint
    enter(first)
    (copy,) = copies(cache)
    saved = (copy / "model.safetensors").stat()
    enter(second)
    assert copies(cache) == [copy]
    assert (copy / "model.safetensors").stat().st_mtime_ns == saved.st_mtime_ns
    different = save_gguf(tmp_path / "other.gguf", chat_model(seed=1))
    assert local(different).fingerprint != first.fingerprint
    assert local(gguf_file, dtype="bfloat16").fingerprint != first.fingerprint


MAKES = """
import asyncio, sys
from tiltmeter.models import create_model
async def main():
    async with create_model(sys.argv[1]):
        print("loaded")
asyncio.run(main())
"""


@pytest.mark.verify
def test_two_processes_make_one_copy(gguf_file: Path, cache: Path) -> None:
    processes = [start_code(MAKES, f"hf/{gguf_file}") for _ in range(2)]
    outputs = [process.communicate(timeout=300) for process in processes]
    assert [process.returncode for process in processes] == [0, 0], outputs
    assert sum("dequantising tiny.gguf, once" in message for _, message in outputs) == 1
    assert len(copies(cache)) == 1


def test_the_partial_copy_of_a_killed_process_is_replaced(gguf_file: Path, cache: Path) -> None:
    enter(local(gguf_file))
    (copy,) = copies(cache)
    copy.rename(unfinished := copy.with_name(f".{copy.name}"))
    (unfinished / "model.safetensors").write_bytes(b"half")
    enter(local(gguf_file))
    assert copies(cache) == [copy]


def test_files_that_are_no_model_are_refused(
    gguf_file: Path, chat_model: Make, tmp_path: Path, cache: Path
) -> None:
    content = gguf_file.read_bytes()
    (tmp_path / "text.gguf").write_text("once upon a time")
    (tmp_path / "empty.gguf").write_bytes(b"")
    (tmp_path / "folder.gguf").mkdir()
    for name, message in {
        "text": "is not a GGUF file: it does not begin with GGUF",
        "empty": "is not a GGUF file",
        "missing": "there is no file",
        "folder": "there is no file",
    }.items():
        with pytest.raises(InputError, match=message):
            local(tmp_path / f"{name}.gguf")
    with pytest.raises(InputError, match="is a local file, which has no revisions"):
        local(gguf_file, revision="main")
    with pytest.raises(InputError, match="runner=vllm does not read GGUF files"):
        local(gguf_file, runner="vllm")
    for share in (0.001, 0.02, 0.5, 0.99):
        (tmp_path / "cut.gguf").write_bytes(content[: max(8, int(share * len(content)))])
        with pytest.raises(
            InputError, match=r"cut\.gguf is damaged or incomplete \(\w+\): download it again"
        ):
            enter(local(tmp_path / "cut.gguf"))
    save_gguf(tmp_path / "new.gguf", chat_model(), architecture="newest")
    with pytest.raises(
        InputError,
        match=r"transformers [\d.]+ cannot load .*new\.gguf, a GGUF file of the architecture 'newest' .*",
    ):
        enter(local(tmp_path / "new.gguf"))
    assert copies(cache) == []


@pytest.mark.parametrize("turn_end", [100_000, -1, "<|im_end|>", True])
def test_an_end_token_outside_the_vocabulary_is_refused(
    chat_model: Make, tmp_path: Path, cache: Path, turn_end: int | str | bool
) -> None:
    file = save_gguf(tmp_path / "odd.gguf", chat_model(), turn_end=turn_end)
    token = re.escape(repr(turn_end))
    message = (
        rf"odd\.gguf: tokenizer\.ggml\.eot_token_id is {token}, "
        r"which is none of the [\d,]+ tokens of its vocabulary; correct the file"
    )
    with pytest.raises(InputError, match=message):
        enter(local(file))
    assert copies(cache) == []


def test_the_end_of_a_turn_ends_an_answer(chat_model: Make, tmp_path: Path, cache: Path) -> None:
    from transformers import GenerationConfig

    enter(local(save_gguf(tmp_path / "chat.gguf", chat_model(), turn_end=5)))
    (copy,) = copies(cache)
    assert 5 in GenerationConfig.from_pretrained(copy).eos_token_id
    assert "quantization_config" not in json.loads((copy / "config.json").read_text())


def raising(error: Exception) -> Callable[..., Any]:
    def fail(*_arguments: Any, **_named: Any) -> Any:
        raise error

    return fail


OUT_OF_MEMORY = (
    RuntimeError(
        "[enforce fail at alloc_cpu.cpp:117] DefaultCPUAllocator: can't allocate memory: "
        "you tried to allocate 9 bytes."
    ),
    MemoryError(),
    OSError(errno.ENOMEM, "Cannot allocate memory"),
)


@pytest.mark.parametrize("error", OUT_OF_MEMORY, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize("reader", ["transformers.AutoModelForCausalLM.from_pretrained", "gguf.GGUFReader"])
def test_too_little_memory_for_a_file_is_one_sentence(
    gguf_file: Path, cache: Path, monkeypatch: pytest.MonkeyPatch, error: Exception, reader: str
) -> None:
    monkeypatch.setattr(reader, raising(error))
    with pytest.raises(
        ProviderError, match=r"tiny\.gguf does not fit into memory as float32: use a smaller model"
    ):
        enter(local(gguf_file))
    assert copies(cache) == []


@pytest.mark.parametrize("reader", ["transformers.AutoModelForCausalLM.from_pretrained", "gguf.GGUFReader"])
def test_a_gguf_file_that_cannot_be_read_is_named(
    gguf_file: Path, cache: Path, monkeypatch: pytest.MonkeyPatch, reader: str
) -> None:
    monkeypatch.setattr(reader, raising(OSError(errno.EIO, "Input/output error", "model.gguf")))
    with pytest.raises(InputError, match=r"tiny\.gguf cannot be read \(Input/output error\)$"):
        enter(local(gguf_file))
    assert copies(cache) == []


def test_a_file_that_cannot_be_copied_beside_the_weights(
    gguf_file: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file system without links: the file is copied, and may vanish or become unreadable meanwhile."""
    monkeypatch.setattr(Path, "symlink_to", raising(OSError(errno.EPERM, "Operation not permitted")))
    enter(local(gguf_file))
    shutil.rmtree(cache)
    monkeypatch.setattr(shutil, "copyfile", raising(OSError(errno.EIO, "Input/output error", str(gguf_file))))
    with pytest.raises(InputError, match=r"tiny\.gguf cannot be read"):
        enter(local(gguf_file))
    monkeypatch.setattr(
        shutil, "copyfile", raising(OSError(errno.ENOSPC, "No space left on device", "elsewhere"))
    )
    with pytest.raises(InputError, match=r"cannot write .*: No space left on device; free some space"):
        enter(local(gguf_file))
    assert copies(cache) == []


def test_an_error_of_transformers_is_no_error_of_the_cache(
    gguf_file: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "transformers.AutoTokenizer.from_pretrained",
        raising(OSError("Can't load the tokenizer of this file.")),
    )
    with pytest.raises(
        InputError, match=r"transformers [\d.]+ cannot load .*tiny\.gguf.*\(Can't load the tokenizer"
    ):
        enter(local(gguf_file))
    assert copies(cache) == []


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_cache_that_cannot_be_written_is_named(gguf_file: Path, cache: Path) -> None:
    cache.parent.mkdir()
    cache.parent.chmod(0o500)
    with pytest.raises(InputError, match="set TILTMETER_CACHE to a writable folder"):
        enter(local(gguf_file))


def test_the_command_refuses_a_damaged_file_in_one_sentence(
    tiltmeter: Tiltmeter, gguf_file: Path, tmp_path: Path
) -> None:
    (tmp_path / "cut.gguf").write_bytes(gguf_file.read_bytes()[:2000])
    command = "run genderbench/direct --limit 2 --display none --out run -m"
    done = tiltmeter(command, "hf/cut.gguf", exits=2, says="cut.gguf is damaged or incomplete")
    assert len(done.stderr.strip().splitlines()) <= 2
    assert not (tmp_path / "run").exists()
    tiltmeter(command, "hf/none.gguf", exits=2, says="there is no file none.gguf")
    assert not (tmp_path / "run").exists()


WITHOUT_GGUF = """
import sys
sys.modules["gguf"] = None
from tiltmeter.errors import ProviderError
from tiltmeter.models import create_model
try:
    create_model(sys.argv[1])
except ProviderError as error:
    print(error)
"""


def test_without_the_gguf_package_the_error_says_what_to_install(gguf_file: Path) -> None:
    assert (
        'needs the package gguf: pip install "tiltmeter[local]"'
        in run_code(WITHOUT_GGUF, f"hf/{gguf_file}").stdout
    )
    assert ProviderError.exit_code == 4
