"""How well embeddings predict relations: ranking protocols, metrics and their intervals.

Needs numpy only. Everything computed here from private relations is sensitive.

>>> from reldp.evaluation import evaluate
"""

from reldp.evaluation.protocol import EvaluationResult, evaluate

__all__ = ["EvaluationResult", "evaluate"]
