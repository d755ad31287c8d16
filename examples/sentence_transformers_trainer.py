"""Train a SentenceTransformer on private pairs, as SentenceTransformerTrainer would, with a guarantee."""

from datasets import Dataset
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer import evaluation, losses
from transformers import TrainerCallback

import reldp
from reldp.integrations import sentence_transformers as private


class PrintLogs(TrainerCallback):
    def on_log(self, args, state, control, logs, **kwargs):
        print(f"step {state.global_step}: {logs}")  # epsilon and learning rate; nothing sensitive


def main(model=None, pairs=None, folder="runs/sentence-transformers", **settings):
    model = model or SentenceTransformer("sentence-transformers/all-MiniLM-L6-v2")
    model.max_seq_length = 32  # short texts: steps take time in proportion
    if pairs is None:  # WordNet's nouns stand in for your pairs of related texts
        table = reldp.EntityGraph.read("wordnet-nouns").to_pairs(left="anchor", right="positive")
        pairs = Dataset(table.select(["anchor", "positive"]))
    left, right = ["a red bag", "a wool hat"], ["a bag in red", "a steel knife"]
    trainer = private.PrivateSentenceTransformerTrainer(
        model=model,
        args=private.PrivateTrainingArguments(output_dir=folder, target_epsilon=4.0, **settings),
        train_dataset=pairs,  # equal texts are one entity: that is who is protected
        loss=losses.MultipleNegativesRankingLoss(model),
        evaluator=evaluation.EmbeddingSimilarityEvaluator(left, right, [1.0, 0.0], name="public"),
        evaluator_data="public",
        callbacks=[PrintLogs],
    )
    trainer.train()
    trainer.save_model(f"{folder}-model")  # with the certificate in its model card
    return trainer


if __name__ == "__main__":
    main(max_steps=60, eval_steps=30, warmup_ratio=0.1)
