"""Tiny models with random weights, written to disk as real model folders."""

from pathlib import Path

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
    """A BERT-, MPNet- or Llama-type model and its tokeniser in a folder."""
    torch.manual_seed(7)
    if kind == "bert":
        model = BertModel(BertConfig(**_SMALL, pad_token_id=0))
        tokeniser = _word_tokeniser(["[PAD]", "[UNK]", "[CLS]", "[SEP]"])
    elif kind == "mpnet":
        config = MPNetConfig(**_SMALL, pad_token_id=1)
        model = MPNetModel(config)
        tokeniser = _word_tokeniser(["<s>", "<pad>", "</s>", "[UNK]"])
    else:
        model = LlamaForCausalLM(LlamaConfig(**_SMALL, num_key_value_heads=2))
        tokeniser = _word_tokeniser(["<unk>", "<s>", "</s>"])
    with torch.no_grad():
        # Biases and norms start at 0 and 1, where a mistake in them would not show.
        for parameter in model.parameters():
            if parameter.ndim == 1:
                parameter.add_(0.1 * torch.randn_like(parameter))
    model.save_pretrained(folder)
    tokeniser.save_pretrained(folder)
    return folder


def _word_tokeniser(special: list[str]) -> PreTrainedTokenizerFast:
    """Words split at spaces, wrapped as the architecture expects."""
    vocabulary = {word: index for index, word in enumerate([*special, *SENTENCE.split()])}
    unknown = next(word for word in special if "unk" in word.lower())
    tokeniser = Tokenizer(models.WordLevel(vocabulary, unk_token=unknown))
    tokeniser.pre_tokenizer = pre_tokenizers.Whitespace()
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
    tokeniser.post_processor = processors.TemplateProcessing(single=template, special_tokens=tokens)
    return PreTrainedTokenizerFast(tokenizer_object=tokeniser, **named)
