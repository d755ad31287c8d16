"""Tiny models with random weights, written to disk as real model folders."""

from pathlib import Path

import gguf
import numpy as np
import torch
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import (
    BertConfig,
    BertModel,
    LlamaConfig,
    LlamaForCausalLM,
    MPNetConfig,
    MPNetModel,
    PreTrainedTokenizerFast,
)

SENTENCE = "a the red blue cat dog sees likes big small house tree runs jumps over under and or"
TEXTS = [
    "the red cat sees a big dog",
    "a blue tree",
    "the dog",
    "small house under the big red tree and the blue cat",
    "cat",
    "the dog likes the cat and the cat likes the dog and the house",
    "jumps over",
    "unheard words only",
]
_SMALL = {
    "hidden_size": 32,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "intermediate_size": 48,
    "vocab_size": 40,
    "max_position_embeddings": 32,
    "initializer_range": 0.3,
}


def write_model(kind: str, folder: Path) -> Path:
    """A BERT-, MPNet- or Llama-type model and its tokenizer in a folder."""
    torch.manual_seed(7)
    if kind == "bert":
        model = BertModel(BertConfig(**_SMALL, pad_token_id=0))
        tokenizer = _word_tokenizer(["[PAD]", "[UNK]", "[CLS]", "[SEP]"])
    elif kind == "mpnet":
        config = MPNetConfig(**_SMALL, pad_token_id=1)
        model = MPNetModel(config)
        tokenizer = _word_tokenizer(["<s>", "<pad>", "</s>", "[UNK]"])
    else:
        model = LlamaForCausalLM(LlamaConfig(**_SMALL, num_key_value_heads=2))
        tokenizer = _word_tokenizer(["<unk>", "<s>", "</s>"])
    with torch.no_grad():
        # Biases and norms start at 0 and 1, where a mistake in them would not show.
        for parameter in model.parameters():
            if parameter.ndim == 1:
                parameter.add_(0.1 * torch.randn_like(parameter))
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def suited(pooling: str, folder: Path) -> str:
    """The pooling for a model: "cls or last" is the last token for a decoder, the first else."""
    if pooling == "cls or last":
        return "last" if folder.name == "llama" else "cls"
    return pooling


def _word_tokenizer(special: list[str]) -> PreTrainedTokenizerFast:
    """Words split at spaces, wrapped as the architecture expects."""
    vocabulary = {word: index for index, word in enumerate([*special, *SENTENCE.split()])}
    unknown = next(word for word in special if "unk" in word.lower())
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token=unknown))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    named = {"unk_token": unknown}
    if "[CLS]" in special:
        first, last = "[CLS]", "[SEP]"
        named |= {"cls_token": first, "sep_token": last, "pad_token": "[PAD]"}
    elif "<pad>" in special:
        first, last = "<s>", "</s>"
        named |= {"bos_token": first, "eos_token": last, "pad_token": "<pad>"}
    else:
        # Like Llama's: no padding token, nothing after the text.
        first, last = "<s>", None
        named |= {"bos_token": first, "eos_token": "</s>"}
    template = f"{first} $A" + (f" {last}" if last else "")
    tokens = [(word, vocabulary[word]) for word in (first, last) if word]
    tokenizer.post_processor = processors.TemplateProcessing(single=template, special_tokens=tokens)
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, **named)


def write_gguf(path: Path, *, packed: bool) -> Path:
    """A Llama-type model in one GGUF file, its matrices in 8-bit blocks or plain."""
    writer = gguf.GGUFWriter(path, "llama")
    pieces = ["<unk>", "<s>", "</s>", *dict.fromkeys(SENTENCE.replace(" ", "")), "\u2581"]
    writer.add_context_length(32)
    writer.add_embedding_length(32)
    writer.add_block_count(2)
    writer.add_feed_forward_length(64)
    writer.add_head_count(4)
    writer.add_head_count_kv(2)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_dimension_count(8)
    writer.add_rope_freq_base(10_000.0)
    writer.add_vocab_size(len(pieces))
    writer.add_tokenizer_model("llama")
    writer.add_token_list(pieces)
    writer.add_token_scores([-float(place) for place in range(len(pieces))])
    writer.add_token_types([2, 3, 3] + [1] * (len(pieces) - 3))
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_unk_token_id(0)
    generator = np.random.default_rng(0)
    shapes = {"token_embd": (len(pieces), 32), "output": (len(pieces), 32), "output_norm": (32,)}
    for block in range(2):
        shapes |= {f"blk.{block}.{name}": shape for name, shape in _GGUF_BLOCK.items()}
    for name, shape in shapes.items():
        values = (0.2 * generator.normal(size=shape) + (len(shape) == 1)).astype(np.float32)
        if packed and len(shape) == 2:
            kind = gguf.GGMLQuantizationType.Q8_0
            writer.add_tensor(f"{name}.weight", gguf.quantize(values, kind), raw_dtype=kind)
        else:
            writer.add_tensor(f"{name}.weight", values)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


_GGUF_BLOCK = {
    "attn_q": (32, 32),
    "attn_k": (16, 32),
    "attn_v": (16, 32),
    "attn_output": (32, 32),
    "ffn_gate": (64, 32),
    "ffn_up": (64, 32),
    "ffn_down": (32, 64),
    "attn_norm": (32,),
    "ffn_norm": (32,),
}
