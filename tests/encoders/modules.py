"""Small modules of users, and graphs for them."""

import numpy as np
import torch
from torch import Tensor, nn

from reldp.encoders import Column, PerEntity
from reldp.graph import EntityGraph

WORDS, LENGTH = 12, 5


def small_cnn(seed: int = 0) -> nn.Module:
    """A CNN on images of 1 x 4 x 4."""
    torch.manual_seed(seed)
    return nn.Sequential(
        nn.Conv2d(1, 3, 3, padding=1),
        nn.GroupNorm(1, 3),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(12, 5),
    )


def tabular(seed: int = 0) -> nn.Module:
    """A network on six numbers."""
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(6, 7), nn.PReLU(), nn.LayerNorm(7), nn.Linear(7, 3))


class Transformer(nn.Module):
    """A transformer with a class token and positions as bare parameters."""

    def __init__(self, seed: int = 0) -> None:
        super().__init__()
        torch.manual_seed(seed)
        self.words = nn.Embedding(WORDS, 8, padding_idx=0)
        self.first = nn.Parameter(torch.randn(1, 1, 8))
        self.positions = nn.Parameter(0.3 * torch.randn(LENGTH + 1, 8))
        layer = nn.TransformerEncoderLayer(8, 2, 12, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2)

    def forward(self, words: Tensor) -> Tensor:
        """Return the class token's state."""
        x = torch.cat([self.first.expand(len(words), -1, -1), self.words(words)], 1)
        hidden = nn.functional.pad(words == 0, (1, 0))
        return self.encoder(x + self.positions, src_key_padding_mask=hidden)[:, 0]


class Mixed(nn.Module):
    """Words of a text and two numbers."""

    def __init__(self, seed: int = 0) -> None:
        super().__init__()
        torch.manual_seed(seed)
        self.words = nn.EmbeddingBag(WORDS, 6)
        self.numbers = nn.Linear(2, 6)
        self.scale = nn.Parameter(torch.ones(6))
        self.out = nn.Linear(6, 4)

    def forward(self, words: Tensor, numbers: Tensor) -> Tensor:
        """Return the embedding of both."""
        return self.out(torch.tanh(self.words(words) * self.scale + self.numbers(numbers)))


def word_ids(entity: dict) -> list[int]:
    """Return five word ids of a text; 0 for none."""
    ids = [1 + sum(map(ord, word)) % (WORDS - 1) for word in entity["text"].split()]
    return (ids + [0] * LENGTH)[:LENGTH]


def words_input() -> PerEntity:
    """Return the words of an entity's text."""
    return PerEntity(word_ids, shape=LENGTH, num_values=WORDS)


def mixed_inputs() -> dict:
    """Return the inputs of `Mixed`."""
    return {"words": words_input(), "numbers": Column("price", "year")}


def mixed_graph(count: int, seed: int = 0) -> EntityGraph:
    """Entities with a text of one to five words, two numbers and six features, in a ring."""
    generator = np.random.default_rng(seed)
    vocabulary = ["red", "blue", "big", "small", "house", "tree", "dog", "cat", "runs", "jumps"]
    texts = [" ".join(generator.choice(vocabulary, 1 + i % LENGTH)) for i in range(count)]
    entities = {
        "id": np.arange(count),
        "text": texts,
        "price": generator.normal(size=count),
        "year": generator.integers(0, 3, count),
        "features": list(generator.normal(size=(count, 6)).astype(np.float32)),
    }
    ring = np.arange(count)
    return EntityGraph.from_arrow(entities, {"source": ring, "target": (ring + 1) % count})
