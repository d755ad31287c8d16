"""Training of SentenceTransformers with differential privacy, by the names that their users know.

    from reldp.integrations.sentence_transformers import PrivateSentenceTransformerTrainer, PrivateTrainingArguments

    args = PrivateTrainingArguments(output_dir="run", target_epsilon=4.0)
    trainer = PrivateSentenceTransformerTrainer(model=model, args=args, train_dataset=pairs)
    trainer.train()

docs/coming-from-sentence-transformers.md has the same script before and after, and what is refused and why.

Public: `PrivateSentenceTransformerTrainer`, `PrivateTrainingArguments`.

>>> PrivateTrainingArguments(output_dir="run", target_epsilon=4.0).optim
'adamw_torch'
"""

from importlib.util import find_spec

from reldp.errors import MissingDependency

if any(find_spec(name) is None for name in ("sentence_transformers", "accelerate")):
    raise MissingDependency(
        "sentence-transformers must be installed with its extra for training. "
        'Install it: pip install "reldp[sentence-transformers]".'
    )

from reldp.integrations.sentence_transformers.arguments import PrivateTrainingArguments
from reldp.integrations.sentence_transformers.trainer import (
    PrivateSentenceTransformerTrainer,
)

__all__ = ["PrivateSentenceTransformerTrainer", "PrivateTrainingArguments"]
