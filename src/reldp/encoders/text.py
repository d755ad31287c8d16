"""Text encoder: a Hugging Face model, the part of it that is trained, and its pooling.

Supports transformers that ``AutoModel`` loads without remote code; BERT, MPNet and Llama types are
tested, GGUF files too. A model whose rows are not independent is refused. Texts are tokenized once
per graph, rows are padded on the right for every type, and dropout is off, so an embedding depends
on its text and the weights alone, up to rounding (theory.md 2 and 6).

Public: `TextEncoder`. ``TextEncoder.load(..., train="head")`` returns a `reldp.encoders.head.HeadEncoder`, and
``train="pooling"`` a `reldp.encoders.pooling_encoder.PoolingEncoder`, which train a part after a frozen model.

    encoder = TextEncoder.load("sentence-transformers/all-MiniLM-L6-v2", lora_rank=8)
    table = encoder.table(graph)
    embeddings = encoder.embed(encoder.rows(table, [0, 5, 9]))  # (3, 384), with gradients

>>> TextEncoder.load("a/b/c")
Traceback (most recent call last):
reldp.errors.EncoderError: `source` must be a model's folder, got 'a/b/c', which does not exist.
"""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from reldp._torch_state import float32_by_default, plain_torch
from reldp._validate import check_integer
from reldp.encoders.adaptation import Adaptation, adapt
from reldp.encoders.architecture import tokenizer_hash
from reldp.encoders.attention import use_short_attention
from reldp.encoders.encoder import Encoder, refuse_batch_mixing
from reldp.encoders.folders import new_folder
from reldp.encoders.loading import DenseLayer, Pretrained, load_pretrained
from reldp.encoders.model_files import as_encoder_error, as_reading_error
from reldp.encoders.model_size import refuse_slow_model
from reldp.encoders.prefix import HiddenTable
from reldp.encoders.saving import base_model, write_text_folder
from reldp.encoders.soundness import (
    DIFFERENT_TEXTS,
    PUBLIC_TEXTS,
    refuse_equal_rows,
    refuse_non_finite,
)
from reldp.encoders.tabulation import tabulate
from reldp.encoders.text_batches import (
    graph_tokens,
    length_batches,
    random_tokens,
    rows_in_order,
    string_batches,
    text_rows,
)
from reldp.encoders.text_defaults import (
    base_hash,
    checked_max_length,
    checked_pooling,
    frozen_kind,
)
from reldp.encoders.text_module import TextModule
from reldp.encoders.token_rows import TokenRows
from reldp.encoders.tokens import TokenTable, tokenize
from reldp.errors import EncoderError
from reldp.gradients.short_attention import NAME as SHORT

if TYPE_CHECKING:
    from reldp.graph import CappedGraph, EntityGraph

__all__ = ["TextEncoder"]

# On a CPU activations should stay in its caches; a GPU needs large batches to be busy.
_MAX_TOKENS = {"cpu": 1024, "cuda": 32_768}


class TextEncoder(Encoder):
    """Encoder of texts; created by `load`."""

    def __init__(
        self,
        pretrained: Pretrained,
        how: Adaptation,
        *,
        pooling: str | None = None,
        normalize: bool | None = None,
        max_length: int | None = None,
    ) -> None:
        """Adapt a loaded model; see `load` for the arguments."""
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
        holder: Any = pretrained.model
        self._num_token_rows = int(holder.get_input_embeddings().weight.shape[0])
        self._text = TextModule(
            backbone,
            pooling=self._described["pooling"],
            dense=pretrained.dense,
            normalize=self._described["normalize"],
            autocast=self._described["dtype"] == "bfloat16" and how.train != "lora",
            attention=pretrained.attention,
        ).eval()
        self.module: nn.Module = self._text

    @classmethod
    @float32_by_default()
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
        """Load a pretrained model and prepare the part of it that is trained.

        Args:
            source: Folder, hub name, or path of a ``.gguf`` file.
            train: ``"lora"``, ``"full"``, ``"last:N"`` (layers), ``"head"``, ``"pooling"`` (weights of
                tokens in mean pooling) or ``"none"``.
            lora_rank: Rank of the adapters.
            lora_alpha: Numerator of the adapters' scale, alpha / rank (default: twice the rank).
            lora_targets: Names of linear layers, ``"all-linear"`` or ``"query-value"`` (default: all
                where a layer is attention and a dense feed-forward, else query and value).
            lora_layers: Number of last layers with adapters (default: all). The layers before them
                run without gradients.
            pooling: ``"mean"``, ``"cls"`` or ``"last"`` (default: the model's; for a model without
                one, ``"last"`` for decoders and ``"mean"`` for others).
            normalize: Whether embeddings have length 1 (default: as the model says).
            max_length: Maximum number of tokens; longer texts are cut (default: the model's, or
                128).
            dtype: Type of the frozen weights: ``"float32"`` or ``"bfloat16"``.
            device: Device of the model.
            attention: Performance setting that never changes epsilon: ``"short"`` for texts of at
                most 64 tokens (`reldp.gradients.short_attention`, a fused kernel for bfloat16 on a
                GPU), or the name of a transformers implementation such as ``"eager"`` (default:
                chosen by transformers).
            gguf_file: GGUF file inside the folder or hub repository.
            revision: Revision of a hub repository.
            seed: Seed of the new weights, which are public.
            head_hidden: Hidden widths of the head, for ``train="head"``.
            head_dim: Length of an embedding after the head (default: the model's).
        """
        kind, extra = frozen_kind(train, head_hidden, head_dim) or (TextEncoder, {})
        how = Adaptation(
            train="none" if kind is not TextEncoder else train,
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
        encoder.source = source
        encoder.to(device)
        with as_encoder_error(encoder._described["base_model"]):
            num_weights = sum(value.numel() for value in encoder._text.parameters())
            refuse_slow_model(lambda: encoder.encode(PUBLIC_TEXTS[:1]), num_weights)
        if attention == SHORT:
            use_short_attention(
                base_model(encoder._text.backbone),
                encoder.public_embeddings,
                max_length=encoder.max_length,
                dtype=dtype,
            )
        encoder.check_finite()
        return encoder

    def public_embeddings(self) -> npt.NDArray[np.float32]:
        """Return embeddings of public sentences, from one word to the maximum length."""
        with as_encoder_error(self._described["base_model"]):
            return self.encode(PUBLIC_TEXTS)

    def check_finite(self) -> None:
        """Refuse weights or embeddings of public texts that are not finite, or all equal."""
        if self.module is not self._text:  # the trained module is a head on top of it
            refuse_non_finite(dict(self._text.named_parameters()))
        super().check_finite()
        refuse_equal_rows(self.encode(DIFFERENT_TEXTS))

    @property
    def dim(self) -> int:
        """Length of an embedding."""
        return int([self._described["hidden_size"], *self._described["dense"]][-1])

    def tokenize(self, texts: Sequence[str]) -> TokenTable:
        """Return the token table of a list of texts."""
        return tokenize(self.tokenizer, string_batches(texts), self.max_length)

    def table(
        self,
        graph: "EntityGraph | CappedGraph",
        *,
        pool: Any = None,
        keep_states: bool = False,
        tokenize: str | None = None,
    ) -> Any:
        """Return the token table of the graph's texts, then of a public pool.

        Args:
            graph: Graph of texts.
            pool: Public pool: another graph or a list of texts.
            keep_states: Whether to run the frozen lower layers here and keep their outputs: 4 bytes
                times tokens times hidden size. Without effect if all layers are trained.
            tokenize: For a store: ``"ahead"``, into files beside it, or ``"on the fly"`` (default: by size).
        """
        table = self._tokenize_graph(graph, how="ahead" if keep_states else tokenize)
        if pool is not None:
            is_texts = isinstance(pool, Sequence) and not isinstance(pool, str)
            table = table.join(self.tokenize(pool) if is_texts else self._tokenize_graph(pool))
        if keep_states and self._text.num_frozen:
            return self._hidden_table(table)
        return table

    def rows(self, table: Any, indices: Any) -> dict[str, Tensor]:
        """Return inputs of `embed`, padded on the right: token ids, or states of frozen layers."""
        if isinstance(table, HiddenTable):
            return self._hidden_rows(table, indices)
        return self._token_rows(table, indices)

    def token_rows(self, table: Any) -> TokenRows:
        """Return the lengths of texts, and what fills short rows."""
        return text_rows(table, self.max_length)

    def synthetic_rows(
        self, table: Any, count: int, *, length: int, generator: torch.Generator
    ) -> dict[str, Tensor]:
        """Return random tokens, or random states of frozen layers, in rows of random lengths."""
        rows = self._synthetic_tokens(count, length, generator)
        if not isinstance(table, HiddenTable):
            return rows
        mask = rows["attention_mask"]
        states = torch.randn((count, length, table.states.shape[1]), generator=generator)
        return {"hidden": states.to(mask.device) * mask[..., None], "attention_mask": mask}

    def _synthetic_tokens(
        self, count: int, length: int, generator: torch.Generator
    ) -> dict[str, Tensor]:
        """Return public random tokens in rows of random lengths, on the module's device."""
        config: Any = base_model(self._text.backbone).config
        rows = random_tokens(self.tokenizer, int(config.vocab_size), count, length, generator)
        return {name: value.to(self.device) for name, value in rows.items()}

    def encode(
        self, texts: Sequence[str] | TokenTable, *, batch_size: int | None = None
    ) -> npt.NDArray[np.float32]:
        """Return embeddings (texts, dim), in the order of the texts.

        Args:
            texts: List of texts, or their token table.
            batch_size: Number of texts in a batch (default: by their lengths).
        """
        table = texts if isinstance(texts, TokenTable) else self.tokenize(texts)
        return self._encode_with(self._embed_tokens, table, batch_size)

    def encode_graph(
        self,
        graph: "EntityGraph | CappedGraph",
        indices: Any = None,
        *,
        batch_size: int | None = None,
    ) -> npt.NDArray[np.float32]:
        """Return embeddings of the graph's entities, or of those at `indices`, in that order."""
        return self.encode(self._tokenize_graph(graph, indices), batch_size=batch_size)

    def save(self, folder: str | Path, *, overwrite: bool = False) -> None:
        """Write a folder for transformers, PEFT and sentence-transformers."""
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
                attention=self._text.attention,
            )

    def describe(self) -> dict[str, Any]:
        """Return architecture, hashes of base weights and tokenizer, and what is trained."""
        trained = sum(parameter.numel() for parameter in self.trainable().values())
        return {**self._described, "num_trainable": trained}

    def _token_rows(self, table: TokenTable, indices: Any, length: int = 0) -> dict[str, Tensor]:
        """Return token ids and attention mask of the texts at `indices`, on the module's device.

        Args:
            table: Token table.
            indices: Indices of texts.
            length: Minimum number of tokens of a padded row.
        """
        ids, mask = table.rows(indices)
        if ids.max(initial=0) >= self._num_token_rows:
            raise EncoderError(
                "`source` must have a model with a row for every token of the texts, got a special token beyond its "
                "table in a text. Resize the table (resize_token_embeddings), and save the model."
            )
        room = ((0, 0), (0, max(0, length - ids.shape[1])))
        ids, mask = np.pad(ids, room, constant_values=table.pad_id), np.pad(mask, room)
        return {
            "input_ids": torch.from_numpy(ids).to(self.device),
            "attention_mask": torch.from_numpy(mask).to(self.device),
        }

    def _embed_tokens(self, inputs: dict[str, Tensor]) -> Tensor:
        """Return embeddings (rows, dim) of token rows."""
        embeddings: Tensor = self._text(**inputs)
        return embeddings

    def _hidden_rows(self, table: HiddenTable, indices: Any) -> dict[str, Tensor]:
        """Return states of frozen layers and attention mask of the texts at `indices`."""
        states, mask = table.rows(indices)
        return {
            "hidden": torch.from_numpy(states).to(self.device),
            "attention_mask": torch.from_numpy(mask).to(self.device),
        }

    @plain_torch()
    def _hidden_table(self, table: TokenTable) -> HiddenTable:
        """Return the frozen layers' states of every token of all texts."""
        lengths = table.lengths
        offsets = np.concatenate([[0], np.cumsum(lengths)])
        states = np.empty((offsets[-1], self._described["hidden_size"]), np.float32)
        for places, outputs in self._tabulate_with(lambda rows: self._text.below(**rows), table):
            for place, row in zip(places, outputs.float().cpu().numpy(), strict=True):
                states[offsets[place] : offsets[place + 1]] = row[: lengths[place]]
        return HiddenTable(states=states, offsets=offsets)

    @plain_torch()
    def _tabulate(
        self, embed: Callable[[dict[str, Tensor]], Tensor], table: TokenTable
    ) -> npt.NDArray[np.float32]:
        """Embed every text such that its bits are independent of the other texts."""
        return rows_in_order(self._tabulate_with(embed, table), len(table), self.dim)

    def _tabulate_with(
        self, run: Callable[[dict[str, Tensor]], Tensor], table: TokenTable
    ) -> Iterator[tuple[npt.NDArray[np.int64], Tensor]]:
        """Yield places of texts and their outputs of ``run``, batch after batch."""
        seeded = torch.Generator().manual_seed  # by length, whichever other lengths occur
        with as_reading_error():
            yield from tabulate(
                run,
                lambda places, length: self._token_rows(table, places, length),
                lambda count, length: self._synthetic_tokens(count, length, seeded(length)),
                table.lengths,
                max_length=self.max_length,
                max_tokens=self._max_tokens,
            )

    @plain_torch()
    def _encode_with(
        self,
        embed: Callable[[dict[str, Tensor]], Tensor],
        table: TokenTable,
        batch_size: int | None,
    ) -> npt.NDArray[np.float32]:
        """Embed every text, in batches of similar length; rows are in the table's order."""
        if batch_size is not None:
            check_integer("batch_size", batch_size, low=1, error=EncoderError)
        batches = length_batches(table.lengths, max_tokens=self._max_tokens, batch_size=batch_size)
        with torch.no_grad(), as_reading_error():
            outputs = ((places, embed(self._token_rows(table, places))) for places in batches)
            return rows_in_order(outputs, len(table), self.dim)

    @property
    def _max_tokens(self) -> int:
        """Maximum number of tokens, padding included, in a batch without gradients."""
        return _MAX_TOKENS["cpu" if self.device.type == "cpu" else "cuda"]

    def _dense_layers(self) -> list[DenseLayer]:
        """Return the layers after pooling."""
        pairs = zip(self._text.dense, self._text.activations, strict=True)
        return [DenseLayer(linear=cast(nn.Linear, a), activation=b) for a, b in pairs]

    def _tokenize_graph(self, graph: Any, indices: Any = None, how: str | None = "ahead") -> Any:
        """Return the token table of a graph's texts, or of those at `indices`."""
        return graph_tokens(self.tokenizer, graph, indices, self.max_length, how)
