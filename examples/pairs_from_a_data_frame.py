"""Fine-tune a text encoder on a DataFrame with one pair of related texts per row.

python examples/pairs_from_a_data_frame.py sentence-transformers/all-MiniLM-L6-v2
"""

import sys

import pandas as pd

import reldp


def main(
    model: str = "sentence-transformers/all-MiniLM-L6-v2",
    pairs: pd.DataFrame | None = None,
    folder: str = "runs/pairs",
    **changes: object,
) -> reldp.Certificate:
    if pairs is None:  # WordNet's nouns stand in for your pairs of related texts
        names = {"left": "anchor", "right": "positive"}
        pairs = reldp.EntityGraph.read("wordnet-nouns").to_pairs(**names).to_pandas()

    # The ids say which rows are about the same entity: that is who is protected.
    graph = reldp.EntityGraph.from_pairs(
        pairs, left="anchor", right="positive", left_id="left_id", right_id="right_id"
    )
    capped = graph.cap_degrees(max_degree=5, seed=0)
    plan = reldp.PrivacyPlan.for_graph(capped, target_epsilon=4, **changes)

    encoder = reldp.TextEncoder.load(model, lora_rank=8, max_length=32)
    result = reldp.Trainer(encoder, capped, plan, learning_rate=2e-3).fit(folder)
    print(result.certificate.summary)
    print(result.encoder.encode(["a tent for two", "a sleeping bag"]).shape)
    return result.certificate


if __name__ == "__main__":
    main(*sys.argv[1:])
