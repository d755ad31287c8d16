"""Evaluators of sentence-transformers, and relation prediction on a dataset of pairs, on the live model.

An evaluation on private data is computed without noise and no guarantee covers it, so its values are marked:
their names begin with ``sensitive/``. sentence-transformers also writes the values of an evaluator into the data of
the model card, from where a later ``model.save_pretrained`` would publish them; sensitive ones are taken out again.

Inside the package: `Evaluations`, `DATA`.

>>> Evaluations(model=None, encode=None, evaluator=None, graph=None, data="secret")
Traceback (most recent call last):
reldp.errors.ConfigError: `evaluator_data` must be one of public, sensitive, got 'secret'.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from reldp._validate import check_choice
from reldp.errors import ConfigError
from reldp.evaluation import evaluate
from reldp.graph import CappedGraph, EntityGraph
from reldp.training.loggers import SENSITIVE

__all__ = ["DATA", "Evaluations"]

DATA = ("public", "sensitive")
_CANDIDATES = 256


class Evaluations:
    """What is evaluated, and whether its values are sensitive.

    Attributes:
        is_sensitive: Whether the data that is evaluated on is private.
    """

    def __init__(
        self,
        *,
        model: Any,
        encode: Any,
        evaluator: Any,
        graph: EntityGraph | CappedGraph | None,
        data: str,
    ) -> None:
        """Take evaluator and data.

        Args:
            model: The SentenceTransformer, which evaluators get.
            encode: The text encoder on the same weights, for relation prediction.
            evaluator: An evaluator, several in a list, or None.
            graph: A graph whose relations are predicted, or None.
            data: ``"public"``, or ``"sensitive"`` if any of it is private.

        Raises:
            ConfigError: `data` is neither, or an evaluator cannot be called.
        """
        check_choice("evaluator_data", data, DATA, error=ConfigError)
        self.is_sensitive = data == "sensitive"
        self._model, self._encoder, self._graph = model, encode, graph
        self._evaluator = _one(evaluator)

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to evaluate."""
        return self._evaluator is None and self._graph is None

    def run(
        self, *, epoch: float = -1, steps: int = -1, prefix: str = "eval", path: str | None = None
    ) -> dict[str, float]:
        """Return the metrics by name; names of sensitive ones begin with ``sensitive/``.

        Args:
            epoch: Passes over the data so far, for the evaluator.
            steps: Steps so far, for the evaluator.
            prefix: Put before every name.
            path: Folder that the evaluator may write files to.

        Raises:
            ConfigError: There is nothing to evaluate.
        """
        if self.is_empty:
            raise ConfigError(
                "`evaluator` or `eval_dataset` must be given to evaluate, got none. Give one to the trainer."
            )
        metrics: dict[str, Any] = {}
        if self._evaluator is not None:
            with self._scrubbed_card():
                value = self._evaluator(self._model, output_path=path, epoch=epoch, steps=steps)
            metrics |= value if isinstance(value, dict) else {"evaluator": value}
        if self._graph is not None:
            candidates = _CANDIDATES if self._graph.num_relations >= _CANDIDATES else "all"
            result = evaluate(self._encoder, self._graph, candidates)
            metrics |= {name: result[name] for name in result.metrics}
        mark = f"{SENSITIVE}/" if self.is_sensitive else ""
        named = {
            name if name.startswith(f"{prefix}_") else f"{prefix}_{name}": value
            for name, value in metrics.items()
        }
        return {mark + name: value for name, value in named.items()}

    @contextmanager
    def _scrubbed_card(self) -> Iterator[None]:
        """Leave no sensitive value in the data of the model card."""
        card = self._model.model_card_data
        names = ("eval_results_dict", "training_logs")
        before = {name: getattr(card, name) for name in names if hasattr(card, name)}
        for name, value in before.items():
            if self.is_sensitive:
                setattr(card, name, type(value)())
        try:
            yield
        finally:
            if self.is_sensitive:
                for name, value in before.items():
                    setattr(card, name, value)


def _one(evaluator: Any) -> Any:
    """Return one evaluator; several are run in order."""
    if isinstance(evaluator, Sequence):
        from sentence_transformers.sentence_transformer.evaluation import SequentialEvaluator

        return SequentialEvaluator(list(evaluator)) if evaluator else None
    if evaluator is not None and not callable(evaluator):
        raise ConfigError(
            "`evaluator` must be an evaluator of sentence-transformers or a list of them, got "
            f"{type(evaluator).__name__}."
        )
    return evaluator
