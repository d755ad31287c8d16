"""Train on entities with a text and numbers: a shop's offers that were bought together are related."""

import zlib

import numpy as np
import pandas as pd
from torch import nn

import reldp
from reldp.encoders import PerEntity


def word_ids(offer):
    return [zlib.crc32(word.encode()) % 1_000 for word in offer["text"].split()]


class OfferModule(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.words, self.numbers = nn.EmbeddingBag(1_000, 32), nn.Linear(2, 32)

    def forward(self, words, numbers):
        return self.words(words) + self.numbers(numbers).tanh()


def main(folder: str = "runs/mixed-entities", num_offers: int = 12_000, num_steps: int = 100):
    kind, noise = np.arange(num_offers) * 40 // num_offers, np.random.default_rng(0).normal
    text = [f"color{k % 4} model{n % 99}" for n, k in enumerate(kind)]
    numbers = {"weight": kind % 7 - 3 + 0.3 * noise(size=len(kind)), "size": noise(size=len(kind))}
    offers = pd.DataFrame({"id": np.arange(len(kind)), "text": text, **numbers})
    bought = pd.DataFrame({"source": offers["id"][:-1], "target": offers["id"][:-1] + 1})
    capped = reldp.EntityGraph.from_pandas(offers, bought).cap_degrees(max_degree=2, seed=0)
    plan = reldp.PrivacyPlan.for_graph(capped, target_epsilon=4, num_steps=num_steps)
    words = PerEntity(word_ids, shape=2, num_values=1_000)  # called for one offer at a time
    encoder = reldp.ModuleEncoder(OfferModule(), {"words": words, "numbers": ["weight", "size"]})
    return reldp.Trainer(encoder, capped, plan, learning_rate=1e-2).fit(folder)


if __name__ == "__main__":
    print(main().certificate.summary)
