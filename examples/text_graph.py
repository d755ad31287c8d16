"""A text encoder learns from private relations between texts.

WordNet's nouns stand in for a private graph: every entity has a text, and relations say which
entities belong together. The encoder is tested on verbs, which it was not trained on.

    python examples/text_graph.py path/to/a/text/model
"""

import sys

import reldp
from reldp.graph.bundled import load


def main(
    model: str = "sentence-transformers/all-MiniLM-L6-v2",
    folder: str = "runs/text-graph",
    graph: reldp.EntityGraph | None = None,
    test_graph: reldp.EntityGraph | None = None,
    num_steps: int = 60,
    batch_size: float = 64,
    candidates: int = 256,
) -> reldp.Certificate:
    # 1. The private graph. Your own: reldp.EntityGraph.read("folder").
    graph = graph or load("wordnet-nouns")
    test_graph = test_graph or load("wordnet-verbs")

    # 2. Every entity keeps at most five relations; the others are dropped.
    capped = graph.cap_degrees(max_degree=5, seed=0)
    print(capped.report)  # exact counts, which are sensitive: for your eyes only

    # 3. The guarantee: epsilon 4 for every entity. The plan computes the noise that this needs.
    plan = reldp.PrivacyPlan.for_graph(
        capped,
        target_epsilon=4.0,
        num_negatives=4,
        expected_batch_size=batch_size,
        num_steps=num_steps,
        clip_norm=0.1,
    )
    print(f"noise multiplier {plan.noise_multiplier:.3f}, {plan.status}")

    # 4. Low-rank adapters in the last layers: fewer trained parameters mean less noise in total.
    encoder = reldp.TextEncoder.load(model, lora_rank=8, lora_layers=2, max_length=32)
    before = reldp.evaluate(encoder, test_graph, candidates)

    # 5. Train. After a crash, run this program again: it resumes from the last checkpoint.
    result = reldp.Trainer(encoder, capped, plan, learning_rate=2e-3).fit(folder)

    # 6. The result: a trained encoder, and a certificate that anybody can check.
    after = reldp.evaluate(result.encoder, test_graph, candidates)
    print(f"before: {before}")
    print(f"after:  {after}")
    print(result.certificate.summary)
    reldp.verify(folder)
    return result.certificate


if __name__ == "__main__":
    main(*sys.argv[1:])
