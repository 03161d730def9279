"""Tiny models of transformers with random weights, saved to a folder; nothing is downloaded."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

WORDS = """a the nurse doctor engineer teacher pilot she he they is was kind brave calm strong gentle and \
or but at in hospital school
bank office story about Emily John works lives smiles reads writes helps \
waits END stop one two three four five"""

CHATML = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n"
    "{{ message['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
NO_SYSTEM = (
    "{% if messages[0]['role'] == 'system' %}{{ raise_exception('System role not supported') }}{% endif %}"
    + CHATML
)
DROPS_SYSTEM = CHATML.replace(
    "{% for message in messages %}", "{% for message in messages if message['role'] != 'system' %}"
)
THINKS = CHATML.replace("<|im_start|>assistant\n{% endif %}", "<|im_start|>assistant\n<think>\n{% endif %}")
SWITCHED = CHATML.replace(
    "{% endif %}", "{% if enable_thinking is defined %}[{{ enable_thinking }}]{% endif %}{% endif %}"
)


@cache
def _tokenizer_json() -> str:
    """Return a byte-level BPE tokenizer trained on a few words; it can encode any text."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    special = ["<|im_end|>", "<|im_start|>", "<|pad|>"]
    letters = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=400, special_tokens=special, initial_alphabet=letters, show_progress=False
    )
    tokenizer.train_from_iterator([WORDS] * 3, trainer)
    return str(tokenizer.to_str())


def tokenizer(template: str | None = CHATML) -> Any:
    from tokenizers import Tokenizer
    from transformers import PreTrainedTokenizerFast

    words = Tokenizer.from_str(_tokenizer_json())
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=words, eos_token="<|im_end|>", pad_token="<|pad|>", model_max_length=4096
    )
    tokenizer.chat_template = template
    return tokenizer


def config(kind: str, positions: int = 256) -> Any:
    from transformers import GPT2Config, LlamaConfig, Qwen2Config

    words = len(tokenizer())
    if kind == "gpt2":
        return GPT2Config(
            vocab_size=words,
            n_embd=32,
            n_layer=4,
            n_head=4,
            n_positions=positions,
            bos_token_id=0,
            eos_token_id=0,
        )
    make = Qwen2Config if kind == "qwen2" else LlamaConfig
    return make(
        vocab_size=words,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=4,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=positions,
        bos_token_id=None,
        eos_token_id=0,
        pad_token_id=2,
        initializer_range=0.3,
    )


def save_chat_model(
    folder: Path,
    kind: str = "llama",
    *,
    template: str | None = CHATML,
    positions: int = 256,
    seed: int = 0,
    defaults: dict[str, Any] | None = None,
) -> Path:
    """Save a chat model of this kind in `folder`; `defaults` go into its generation_config.json."""
    import torch
    from transformers import AutoModelForCausalLM, GenerationConfig

    torch.manual_seed(seed)
    model = AutoModelForCausalLM.from_config(config(kind, positions))
    model.generation_config = GenerationConfig(eos_token_id=0, pad_token_id=2, **(defaults or {}))
    model.save_pretrained(folder)
    tokenizer(template).save_pretrained(folder)
    return folder


_GGUF_NAMES = {
    "model.embed_tokens": "token_embd",
    "model.norm": "output_norm",
    "lm_head": "output",
    "model.layers": "blk",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm",
}
"""Names of weights in GGUF files."""


def save_gguf(
    path: Path,
    folder: Path,
    *,
    quantised: str | None = None,
    architecture: str = "llama",
    turn_end: int | str | bool | None = None,
) -> Path:
    """Save the Llama model in `folder` as a GGUF file.

    The weights are in a quantised type of GGUF (such as "Q4_1") or in float32.
    `turn_end` is written as the token that ends a turn, in its type.
    """
    import gguf
    from transformers import AutoModelForCausalLM, AutoTokenizer

    model, words = AutoModelForCausalLM.from_pretrained(folder), AutoTokenizer.from_pretrained(folder)
    shape, spelling = model.config, json.loads(words.backend_tokenizer.to_str())["model"]
    writer = gguf.GGUFWriter(path, architecture)
    writer.add_context_length(shape.max_position_embeddings)
    writer.add_embedding_length(shape.hidden_size)
    writer.add_block_count(shape.num_hidden_layers)
    writer.add_feed_forward_length(shape.intermediate_size)
    writer.add_head_count(shape.num_attention_heads)
    writer.add_head_count_kv(shape.num_key_value_heads)
    writer.add_layer_norm_rms_eps(shape.rms_norm_eps)
    writer.add_rope_freq_base(shape.rope_parameters["rope_theta"])
    writer.add_vocab_size(shape.vocab_size)
    tokens = words.convert_ids_to_tokens(range(len(words)))
    special = {number for number, token in enumerate(tokens) if token.startswith("<|")}
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("default")
    writer.add_token_list(tokens)
    writer.add_token_types(
        [
            gguf.TokenType.CONTROL if number in special else gguf.TokenType.NORMAL
            for number in range(len(tokens))
        ]
    )
    writer.add_token_merges(
        [merge if isinstance(merge, str) else " ".join(merge) for merge in spelling["merges"]]
    )
    writer.add_eos_token_id(words.eos_token_id)
    writer.add_pad_token_id(words.pad_token_id)
    writer.add_chat_template(words.chat_template)
    if turn_end is not None:
        kinds = {bool: gguf.GGUFValueType.BOOL, int: gguf.GGUFValueType.INT32, str: gguf.GGUFValueType.STRING}
        writer.add_key_value("tokenizer.ggml.eot_token_id", turn_end, kinds[type(turn_end)])
    heads = {"q_proj": shape.num_attention_heads, "k_proj": shape.num_key_value_heads}
    for name, values in model.state_dict().items():
        weights = values.numpy()
        for part, count in heads.items():
            if part in name:  # llama.cpp rotates neighbouring dimensions
                weights = (
                    weights.reshape(count, 2, -1, shape.hidden_size).swapaxes(1, 2).reshape(weights.shape)
                )
        for part, gguf_name in _GGUF_NAMES.items():
            name = name.replace(part, gguf_name)
        kind = gguf.GGMLQuantizationType[quantised or "F32"]
        if quantised and weights.ndim == 2:
            writer.add_tensor(name, gguf.quants.quantize(weights, kind), raw_dtype=kind)
        else:
            writer.add_tensor(name, weights.copy())
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def _bert_words() -> Any:
    """Return the tokenizer of an encoder: it adds a token at both ends of a text."""
    from tokenizers.processors import TemplateProcessing

    words = tokenizer(None)
    special = [("<|im_start|>", 1), ("<|im_end|>", 0)]
    words.backend_tokenizer.post_processor = TemplateProcessing(
        single="<|im_start|> $A <|im_end|>", special_tokens=special
    )
    return words


def _bert(**more: Any) -> Any:
    from transformers import BertConfig

    sizes = {
        "hidden_size": 16,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "intermediate_size": 32,
        "max_position_embeddings": 64,
    }
    return BertConfig(vocab_size=len(tokenizer()), pad_token_id=2, initializer_range=0.5, **sizes, **more)


def save_classifier(folder: Path, labels: list[str], problem: str | None = None) -> Path:
    """Save a text classifier in `folder`."""
    import torch
    from transformers import BertForSequenceClassification

    torch.manual_seed(0)
    named = dict(enumerate(labels))
    BertForSequenceClassification(
        _bert(
            id2label=named, label2id={label: number for number, label in named.items()}, problem_type=problem
        )
    ).save_pretrained(folder)
    words = _bert_words()
    words.model_max_length = 64
    words.save_pretrained(folder)
    return folder


def save_encoder(folder: Path) -> Path:
    """Save a sentence encoder in `folder`: the mean of the vectors of tokens, of length 1."""
    import torch
    from sentence_transformers import SentenceTransformer, models
    from transformers import BertModel

    torch.manual_seed(0)
    BertModel(_bert()).save_pretrained(folder / "bert")
    words = _bert_words()
    words.model_max_length = 64
    words.save_pretrained(folder / "bert")
    transformer = models.Transformer(str(folder / "bert"), max_seq_length=64)
    encoder = SentenceTransformer(modules=[transformer, models.Pooling(16), models.Normalize()], device="cpu")
    encoder.save(str(folder / "encoder"), create_model_card=False)
    return folder / "encoder"
