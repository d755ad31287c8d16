"""A text encoder: a Hugging Face model, what of it is trained, and how texts become vectors.

Made for transformers that ``AutoModel`` loads without foreign code: BERT, MPNet and Llama types are
tested, GGUF files too; a model whose units cannot be told apart is refused. Texts are tokenized
once per graph; rows are padded on the right for every type, and dropout is off, so an embedding
depends on its own text and the weights alone, beyond rounding (theory.md sections 2 and 6).

Public: `TextEncoder`. ``TextEncoder.load(..., train="head")`` gives a
`reldp.encoders.head.HeadEncoder`: the same, with everything frozen but a head on cached embeddings.

    encoder = TextEncoder.load("sentence-transformers/all-MiniLM-L6-v2", lora_rank=8)
    table = encoder.table(graph)
    embeddings = encoder.embed(encoder.rows(table, [0, 5, 9]))  # (3, 384), with gradients

>>> TextEncoder.load("a/b/c")
Traceback (most recent call last):
reldp.errors.EncoderError: `source` must be a model's folder, got 'a/b/c', which does not exist.
"""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from reldp.encoders.adaptation import Adaptation, adapt
from reldp.encoders.architecture import tokenizer_hash
from reldp.encoders.encoder import Encoder, entities_of, refuse_batch_mixing
from reldp.encoders.folders import new_folder
from reldp.encoders.loading import DenseLayer, Pretrained, load_pretrained
from reldp.encoders.model_files import as_encoder_error
from reldp.encoders.prefix import HiddenTable
from reldp.encoders.saving import base_model, write_text_folder
from reldp.encoders.soundness import (
    DIFFERENT_TEXTS,
    PUBLIC_TEXTS,
    refuse_equal_rows,
    refuse_non_finite,
)
from reldp.encoders.tabulation import tabulate
from reldp.encoders.text_defaults import base_hash, checked_max_length, checked_pooling
from reldp.encoders.text_module import TextModule
from reldp.encoders.tokens import (
    TokenTable,
    checked_indices,
    chunk_sizes,
    shared_table,
    tokenize,
)
from reldp.errors import EncoderError

if TYPE_CHECKING:
    from reldp.graph import CappedGraph, EntityGraph

__all__ = ["TextEncoder"]

_TEXTS_AT_ONCE = 8192
# On a CPU activations should stay in its caches; a GPU wants to be filled.
_TOKENS_AT_ONCE = {True: 1024, False: 32_768}


class TextEncoder(Encoder):
    """Texts in, embeddings out; made by `load`."""

    def __init__(
        self,
        pretrained: Pretrained,
        how: Adaptation,
        *,
        pooling: str | None = None,
        normalize: bool | None = None,
        max_length: int | None = None,
    ) -> None:
        """Adapts a loaded model; see `load` for the arguments."""
        refuse_batch_mixing(pretrained.model)
        config: Any = pretrained.model.config
        self.tokenizer = pretrained.tokenizer
        self.max_length = checked_max_length(max_length, pretrained)
        self._described: dict[str, Any] = {
            "kind": "text",
            "base_model": pretrained.name,
            "architecture": type(pretrained.model).__name__,
            "model_type": str(config.model_type),
            "hidden_size": int(config.hidden_size),
            "num_layers": int(config.num_hidden_layers),
            "dtype": str(next(pretrained.model.parameters()).dtype).removeprefix("torch."),
            "base_weights_sha256": base_hash(pretrained),
            "tokenizer_sha256": tokenizer_hash(self.tokenizer),
            "pooling": checked_pooling(pooling, pretrained),
            "normalize": pretrained.normalize if normalize is None else normalize,
            "max_length": self.max_length,
            "dense": [layer.linear.out_features for layer in pretrained.dense],
        }
        backbone, adaptation = adapt(pretrained.model, how, pretrained.name)
        for layer in pretrained.dense:
            layer.linear.requires_grad_(how.train == "full")
        self._described["adaptation"] = adaptation
        self._text = TextModule(
            backbone,
            pooling=self._described["pooling"],
            dense=pretrained.dense,
            normalize=self._described["normalize"],
            autocast=self._described["dtype"] == "bfloat16" and how.train != "lora",
        ).eval()
        self.module: nn.Module = self._text

    @classmethod
    def load(
        cls,
        source: str | Path,
        *,
        train: str = "lora",
        lora_rank: int = 8,
        lora_alpha: float | None = None,
        lora_targets: str | Sequence[str] | None = None,
        lora_layers: int | None = None,
        pooling: str | None = None,
        normalize: bool | None = None,
        max_length: int | None = None,
        dtype: str = "float32",
        device: str = "cpu",
        attention: str | None = None,
        gguf_file: str | None = None,
        revision: str | None = None,
        seed: int = 0,
        head_hidden: Sequence[int] = (),
        head_dim: int | None = None,
    ) -> "TextEncoder":
        """Loads a pretrained model and prepares what is to be trained.

        Args:
            source: A folder, a hub name, or the path of a ``.gguf`` file.
            train: ``"lora"``, ``"full"``, ``"last:N"`` (layers), ``"head"`` or ``"none"``.
            lora_rank: Rank of the adapters.
            lora_alpha: Their scale is alpha / rank; twice the rank unless given.
            lora_targets: Names of linear layers, ``"all-linear"`` or ``"query-value"``. Unless
                given, all where a layer is attention and a dense feed-forward, else query and value.
            lora_layers: Adapters only in the last so many layers; those before run forward only.
            pooling: ``"mean"``, ``"cls"`` or ``"last"``; unless given, the model's own, else
                ``"last"`` for decoders and ``"mean"`` for all others.
            normalize: Whether embeddings have length 1; the model's own choice unless given.
            max_length: Longer texts are cut; the model's own, or 128, unless given.
            dtype: Of the frozen weights: ``"float32"`` or ``"bfloat16"``.
            device: Where the model goes.
            attention: The transformers attention implementation; its own choice unless given.
            gguf_file: The GGUF file inside the folder or hub repository.
            revision: Of a hub repository.
            seed: Of the new weights, which are public.
            head_hidden: Hidden widths of the head, for train head.
            head_dim: Length of an embedding after the head; the model's own unless given.
        """
        if train == "head":
            from reldp.encoders.head import HeadEncoder

            kind: type[TextEncoder] = HeadEncoder
            extra: dict[str, Any] = {"hidden": head_hidden, "dim": head_dim}
        elif head_hidden or head_dim is not None:
            raise EncoderError(f"`train` must be head for a head's settings, got {train!r}.")
        else:
            kind, extra = TextEncoder, {}
        how = Adaptation(
            train="none" if train == "head" else train,
            lora_rank=lora_rank,
            lora_alpha=lora_alpha,
            lora_targets=lora_targets,
            lora_layers=lora_layers,
            seed=seed,
        )
        pretrained = load_pretrained(
            source, gguf_file=gguf_file, dtype=dtype, attention=attention, revision=revision
        )
        encoder = kind(
            pretrained, how, pooling=pooling, normalize=normalize, max_length=max_length, **extra
        )
        encoder.to(device).check_finite()
        return encoder

    def public_embeddings(self) -> npt.NDArray[np.float32]:
        """Embeddings of public sentences, from one word to as many as the model takes."""
        with as_encoder_error(self._described["base_model"]):
            return self.encode(PUBLIC_TEXTS)

    def check_finite(self) -> None:
        """Refuses weights or embeddings of public texts that are not finite, or all the same."""
        if self.module is not self._text:  # a head alone is trained, on top of this
            refuse_non_finite(dict(self._text.named_parameters()))
        super().check_finite()
        refuse_equal_rows(self.encode(DIFFERENT_TEXTS))

    @property
    def dim(self) -> int:
        """Length of an embedding."""
        return int([self._described["hidden_size"], *self._described["dense"]][-1])

    def tokenize(self, texts: Sequence[str]) -> TokenTable:
        """The token table of some texts."""
        return tokenize(self.tokenizer, _batches(texts), self.max_length)

    def table(
        self,
        graph: "EntityGraph | CappedGraph",
        *,
        pool: Any = None,
        keep_states: bool = False,
    ) -> Any:
        """The token table of the graph's texts, then of a public pool (another graph or texts).

        Args:
            graph: Whose texts.
            pool: What comes after them.
            keep_states: Whether to run the frozen lower layers here, once, and keep what they say:
                4 bytes times tokens times hidden size. Nothing to keep with all layers trained.
        """
        table = self._tokenize_graph(graph)
        if pool is not None:
            is_texts = isinstance(pool, Sequence) and not isinstance(pool, str)
            table = table.join(self.tokenize(pool) if is_texts else self._tokenize_graph(pool))
        if keep_states and self._text.num_frozen:
            return self._hidden_table(table)
        return table

    def rows(self, table: Any, indices: Any) -> dict[str, Tensor]:
        """Inputs of `embed`, padded on the right: token ids, or states of the frozen layers."""
        if isinstance(table, HiddenTable):
            return self._hidden_rows(table, indices)
        return self._token_rows(table, indices)

    def synthetic_rows(
        self, table: Any, count: int, *, length: int, generator: torch.Generator
    ) -> dict[str, Tensor]:
        """Random tokens, or random states of the frozen layers, in rows of random lengths."""
        rows = self._synthetic_tokens(count, length, generator)
        if not isinstance(table, HiddenTable):
            return rows
        mask = rows["attention_mask"]
        states = torch.randn((count, length, table.states.shape[1]), generator=generator)
        return {"hidden": states.to(mask.device) * mask[..., None], "attention_mask": mask}

    def _synthetic_tokens(
        self, count: int, length: int, generator: torch.Generator
    ) -> dict[str, Tensor]:
        """Public random tokens in rows of random lengths."""
        lengths = torch.randint(1, length + 1, (count, 1), generator=generator)
        mask = (torch.arange(length) < lengths).long()  # (rows, tokens)
        config: Any = base_model(self._text.backbone).config
        ids = torch.randint(int(config.vocab_size), (count, length), generator=generator)
        special = torch.tensor(self.tokenizer.all_special_ids)
        drawn = torch.randint(8 * len(special), (count, length), generator=generator)
        ids = torch.where(drawn < len(special), special[drawn % len(special)], ids)  # one in eight
        ids = torch.where(mask > 0, ids, int(self.tokenizer.pad_token_id))
        return {"input_ids": ids.to(self.device), "attention_mask": mask.to(self.device)}

    def encode(
        self, texts: Sequence[str] | TokenTable, *, batch_size: int | None = None
    ) -> npt.NDArray[np.float32]:
        """Embeddings (texts, dim), longest first in batches of like length (sized by itself)."""
        table = texts if isinstance(texts, TokenTable) else self.tokenize(texts)
        return self._encode_with(self._embed_tokens, table, batch_size)

    def encode_graph(
        self,
        graph: "EntityGraph | CappedGraph",
        indices: Any = None,
        *,
        batch_size: int | None = None,
    ) -> npt.NDArray[np.float32]:
        """Embeddings of the graph's entities, or of those asked for, in the order asked for."""
        return self.encode(self._tokenize_graph(graph, indices), batch_size=batch_size)

    def save(self, folder: str | Path, *, overwrite: bool = False) -> None:
        """Writes a folder for transformers, PEFT and sentence-transformers (see `saving`)."""
        with new_folder(folder, overwrite=overwrite) as new:
            write_text_folder(
                new,
                backbone=self._text.backbone,
                tokenizer=self.tokenizer,
                pooling=self._text.pooling,
                max_length=self.max_length,
                dense=self._dense_layers(),
                normalize=self._described["normalize"],
                described=self.describe(),
            )

    def describe(self) -> dict[str, Any]:
        """Architecture, hashes of base weights and tokenizer, and what is trained."""
        trained = sum(parameter.numel() for parameter in self.trainable().values())
        return {**self._described, "num_trainable": trained}

    def _token_rows(self, table: TokenTable, indices: Any, length: int = 0) -> dict[str, Tensor]:
        """Token ids and attention mask of the texts asked for, on the module's device.

        Args:
            table: Where the texts are.
            indices: Which texts.
            length: Tokens of a row; no more than the longest row needs unless given.
        """
        ids, mask = table.rows(indices)
        room = ((0, 0), (0, max(0, length - ids.shape[1])))
        ids, mask = np.pad(ids, room, constant_values=table.pad_id), np.pad(mask, room)
        return {
            "input_ids": torch.from_numpy(ids).to(self.device),
            "attention_mask": torch.from_numpy(mask).to(self.device),
        }

    def _embed_tokens(self, inputs: dict[str, Tensor]) -> Tensor:
        """Embeddings (rows, dim) of token rows."""
        embeddings: Tensor = self._text(**inputs)
        return embeddings

    def _hidden_rows(self, table: HiddenTable, indices: Any) -> dict[str, Tensor]:
        """States of the frozen layers and attention mask of the texts asked for."""
        states, mask = table.rows(indices)
        return {
            "hidden": torch.from_numpy(states).to(self.device),
            "attention_mask": torch.from_numpy(mask).to(self.device),
        }

    def _hidden_table(self, table: TokenTable) -> HiddenTable:
        """What the frozen layers say of every token of all texts."""
        lengths = table.lengths
        offsets = np.concatenate([[0], np.cumsum(lengths)])
        states = np.empty((offsets[-1], self._described["hidden_size"]), np.float32)
        for places, found in self._tabulate_with(lambda rows: self._text.below(**rows), table):
            for place, row in zip(places, found.float().cpu().numpy(), strict=True):
                states[offsets[place] : offsets[place + 1]] = row[: lengths[place]]
        return HiddenTable(states=states, offsets=offsets)

    def _tabulate(
        self, embed: Callable[[dict[str, Tensor]], Tensor], table: TokenTable
    ) -> npt.NDArray[np.float32]:
        """What ``embed`` makes of every text, independently of all others."""
        out: npt.NDArray[np.float32] | None = None
        for places, found in self._tabulate_with(embed, table):
            values = found.float().cpu().numpy()
            out = np.empty((len(table), values.shape[1]), np.float32) if out is None else out
            out[places] = values
        return np.zeros((0, self.dim), np.float32) if out is None else out

    def _tabulate_with(
        self, run: Callable[[dict[str, Tensor]], Tensor], table: TokenTable
    ) -> Iterator[tuple[npt.NDArray[np.int64], Tensor]]:
        """Places of some texts and what ``run`` makes of them, until all are done."""
        seeded = torch.Generator().manual_seed  # by length, whichever other lengths there are
        return tabulate(
            run,
            lambda places, length: self._token_rows(table, places, length),
            lambda count, length: self._synthetic_tokens(count, length, seeded(length)),
            table.lengths,
            max_length=self.max_length,
            max_tokens=_TOKENS_AT_ONCE[self.device.type == "cpu"],
        )

    def _encode_with(
        self,
        embed: Callable[[dict[str, Tensor]], Tensor],
        table: TokenTable,
        batch_size: int | None,
    ) -> npt.NDArray[np.float32]:
        """What ``embed`` makes of every text, longest first, in the table's order."""
        if batch_size is not None and (not isinstance(batch_size, int) or batch_size < 1):
            raise EncoderError(f"`batch_size` must be a whole number above 0, got {batch_size!r}.")
        out: npt.NDArray[np.float32] | None = None
        with torch.inference_mode():
            for batch in self._length_batches(table.lengths, batch_size):
                found = embed(self._token_rows(table, batch)).float().cpu().numpy()
                out = np.empty((len(table), found.shape[1]), np.float32) if out is None else out
                out[batch] = found
        return np.zeros((0, self.dim), np.float32) if out is None else out

    def _length_batches(
        self, lengths: npt.NDArray[np.int64], batch_size: int | None
    ) -> list[npt.NDArray[np.int64]]:
        """Texts in batches of like length, longest first."""
        order = np.argsort(-lengths, kind="stable")
        if batch_size is not None:
            return [order[i : i + batch_size] for i in range(0, len(order), batch_size)]
        sizes = chunk_sizes(lengths[order], _TOKENS_AT_ONCE[self.device.type == "cpu"])
        return np.split(order, np.cumsum(sizes)[:-1]) if sizes else []

    def _dense_layers(self) -> list[DenseLayer]:
        """The layers after pooling."""
        pairs = zip(self._text.dense, self._text.activations, strict=True)
        return [DenseLayer(linear=_linear(a), activation=b) for a, b in pairs]

    def _tokenize_graph(
        self, graph: "EntityGraph | CappedGraph", indices: Any = None
    ) -> TokenTable:
        """The token table of a graph's texts, or of those asked for."""
        entities = entities_of(graph)
        if not entities.has_text:
            raise EncoderError(
                "`graph` must have text, got features only. Use FeatureEncoder for them."
            )
        count = entities.num_entities
        chosen = np.arange(count) if indices is None else checked_indices(indices, count)
        batches = (entities.text(chosen[i]) for i in _slices(len(chosen)))
        if indices is not None:
            return tokenize(self.tokenizer, batches, self.max_length)
        return shared_table(entities.fingerprint, self.tokenizer, batches, self.max_length)


def _slices(count: int) -> Iterator[slice]:
    for start in range(0, count, _TEXTS_AT_ONCE):
        yield slice(start, start + _TEXTS_AT_ONCE)


def _batches(texts: Sequence[str]) -> Iterator[Sequence[str]]:
    """Texts in batches; one string instead of a list of them is a mistake worth naming."""
    if isinstance(texts, str):
        raise EncoderError("`texts` must be a list of strings, got one string.")
    return (texts[i] for i in _slices(len(texts)))


def _linear(module: nn.Module) -> nn.Linear:
    assert isinstance(module, nn.Linear)
    return module
