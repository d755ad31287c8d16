"""PrivateSentenceTransformerTrainer: the trainer of sentence-transformers, with a guarantee.

    trainer = PrivateSentenceTransformerTrainer(model=model, args=args, train_dataset=pairs, evaluator=evaluator)
    trainer.train()
    print(trainer.certificate.summary)

The model is trained in place. Training is `reldp.Trainer`, with its ledger and certificate in ``args.output_dir``: this
class translates names, losses, data and events, and has no loop of its own.

Public: `PrivateSentenceTransformerTrainer`.

>>> PrivateSentenceTransformerTrainer(model=None, args=None, optimizers=(None, None))
Traceback (most recent call last):
reldp.errors.ConfigError: `optimizers` must be left out. An optimizer must be one that a resumed run can make ...
"""

import math
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from transformers.trainer_utils import TrainOutput

from reldp._plan_suggestion import suggest_settings
from reldp._real_path import real_path
from reldp.encoders.folders import new_folder
from reldp.errors import ConfigError, RunError
from reldp.graph.sizes import bounds_for, has_release
from reldp.integrations.sentence_transformers.arguments import PrivateTrainingArguments
from reldp.integrations.sentence_transformers.cards import write_card
from reldp.integrations.sentence_transformers.data import (
    evaluation_graph,
    graph_folder,
    training_graph,
)
from reldp.integrations.sentence_transformers.evaluations import Evaluations
from reldp.integrations.sentence_transformers.events import Events, check_callbacks
from reldp.integrations.sentence_transformers.losses import as_tuple_loss
from reldp.integrations.sentence_transformers.models import SharedEncoder
from reldp.integrations.sentence_transformers.refusals import refuse_parameter
from reldp.integrations.sentence_transformers.reporters import make_reporters
from reldp.integrations.sentence_transformers.stock_arguments import is_stock
from reldp.plan import PrivacyPlan
from reldp.runs.certificate import Certificate
from reldp.runs.changes import refuse_other_graph
from reldp.runs.run_folder import RunFolder
from reldp.training.callbacks import TrainingStopped
from reldp.training.trainer import Trainer, TrainResult
from reldp.training.weight_watch import WeightWatch

__all__ = ["PrivateSentenceTransformerTrainer"]

_PARAMETERS = [
    *("model", "args", "train_dataset", "graph", "eval_dataset", "loss", "evaluator"),
    *("evaluator_data", "callbacks", "id_columns", "public_negatives"),
]


class PrivateSentenceTransformerTrainer:
    """Train a SentenceTransformer on private pairs with differential privacy.

    Attributes:
        model: The SentenceTransformer, trained in place.
        args: The settings.
        plan: The privacy plan that they and the graph give.
        state: Steps and history of logs, as transformers has them.
        evaluations: Metrics of every evaluation, with its step. Sensitive unless evaluator_data is public.
        result: The result of a complete run; None before.
    """

    def __init__(
        self,
        *,
        model: Any,
        args: Any,
        train_dataset: Any = None,
        graph: Any = None,
        eval_dataset: Any = None,
        loss: Any = None,
        evaluator: Any = None,
        evaluator_data: str = "sensitive",
        callbacks: Sequence[Any] = (),
        id_columns: Sequence[str] | None = None,
        public_negatives: Sequence[str] | None = None,
        **refused: Any,
    ) -> None:
        """Translate everything and check it, before anything is computed from the data.

        Args:
            model: A SentenceTransformer as it was loaded.
            args: `PrivateTrainingArguments`.
            train_dataset: A table of pairs: a Hugging Face dataset, pandas, pyarrow or Polars. Equal texts are
                one entity, unless `id_columns` is given.
            graph: In place of a dataset: an `EntityGraph`, a `CappedGraph`, or the path of a graph.
            eval_dataset: Pairs or a graph whose relations are predicted when the model is evaluated.
            loss: A loss of sentence-transformers that looks at one row, a name or object of reldp.losses, or any
                ``loss(embeddings, batch)``; InfoNCE unless given.
            evaluator: An evaluator of sentence-transformers, or a list.
            evaluator_data: ``"public"`` if nothing private is evaluated on; ``"sensitive"`` otherwise.
            callbacks: Callbacks of transformers.
            id_columns: Columns of the ids of anchor and positive: equal ids are one entity.
            public_negatives: Public texts that negatives are drawn from, in place of the graph's entities.
            **refused: Parameters of SentenceTransformerTrainer that are refused with a sentence.

        Raises:
            InputError: A part cannot be had, or the parts do not fit together.
        """
        for name in refused:
            refuse_parameter(name, _PARAMETERS)
        self.args = _checked_arguments(args)
        self.model = model
        self.evaluations: list[dict[str, Any]] = []
        self._result: TrainResult | None = None
        self._folder = Path(self.args.output_dir)
        check_callbacks(callbacks)
        reporters = make_reporters(self.args.report_to)
        tuple_loss = as_tuple_loss(loss, model)
        prompt = _checked_prompt(self.args.prompts, model)
        capped = training_graph(
            graph=graph,
            dataset=train_dataset,
            max_degree=self.args.max_degree,
            seed=self.args.seed,
            id_columns=id_columns,
            prompt=prompt,
        )
        test_graph = evaluation_graph(eval_dataset, id_columns=id_columns, prompt=prompt)
        pool = None if public_negatives is None else list(public_negatives)
        self._shared = SharedEncoder(model, self.args.adaptation())
        try:
            self._evaluations = Evaluations(
                model=model,
                encode=self._shared.encoder,
                evaluator=evaluator,
                graph=test_graph,
                data=evaluator_data,
            )
            if self.args.eval_strategy == "steps" and self._evaluations.is_empty:
                raise ConfigError(
                    "`evaluator` or `eval_dataset` must be given to evaluate every eval_steps, got none."
                )
            if RunFolder(self._folder).has_run:
                _require_release(self.args, capped, graph_folder(graph), RunFolder(self._folder))
            self.plan = _plan(self.args, capped, graph_folder(graph), pool)
            self._events = Events(
                args=self.args,
                num_steps=self.plan.num_steps,
                epochs_per_step=self.plan.sample_rate,
                callbacks=callbacks,
                reporters=reporters,
                model=model,
                folder=RunFolder(self._folder).tensorboard,
                evaluate=self._evaluate,
                has_evaluator=evaluator is not None,
                evaluates_sensitive=self._evaluations.is_sensitive,
            )
            self._trainer = Trainer(
                self._shared.encoder,
                capped,
                self.plan,
                loss=tuple_loss,
                pool=pool,
                callbacks=[self._events],
                **self.args.trainer_settings(self.plan.num_steps),
            )
        except BaseException:
            self._shared.release()
            raise

    def __setattr__(self, name: str, value: Any) -> None:
        """Refuse to exchange a part that was checked: the certificate is about this one."""
        if name in ("model", "args", "plan") and name in vars(self):
            raise AttributeError(
                f"`{name}` of a trainer cannot be changed. Make a new trainer, or save another model by its own "
                "methods."
            )
        super().__setattr__(name, value)

    @property
    def result(self) -> TrainResult | None:
        """The result of a complete run; None before."""
        return self._result

    @property
    def state(self) -> Any:
        """Steps, epochs and history of logs, as transformers has them."""
        return self._events.state

    @property
    def certificate(self) -> Certificate | None:
        """The certificate of a complete run; None before."""
        return None if self.result is None else self.result.certificate

    def train(self, resume_from_checkpoint: bool | None = None) -> TrainOutput:
        """Run the plan, or resume the run in ``output_dir``; the model is trained in place.

        Args:
            resume_from_checkpoint: True to resume the run in ``output_dir``, or to start it there; a folder that
                holds a run is refused otherwise.

        Returns:
            Steps, and metrics with epsilon and delta. The loss is sensitive and is NaN here. If a callback stopped
            the run, there is no certificate, and ``train(resume_from_checkpoint=True)`` goes on.

        Raises:
            ConfigError: ``output_dir`` holds a run and this is not a resumption.
            ResumeError: It holds a run of other data or another objective.
        """
        if self.result is None:
            self._check_resumption(resume_from_checkpoint)
            try:
                self._begin()
                self._result = self._trainer.fit(self._folder)
                self.state.global_step = self.plan.num_steps
            except TrainingStopped:
                self._events.end()
                return self._output({})
            except BaseException:
                self._events.close()
                raise
            self._shared.finish(keep_adapters=self.args.keep_adapters)
            self._events.end()
        certificate = self._certificate()
        return self._output({"epsilon": certificate.epsilon, "delta": certificate.delta})

    def evaluate(self, metric_key_prefix: str = "eval") -> dict[str, float]:
        """Return the metrics of the model as it is; names of sensitive ones begin with ``sensitive/``."""
        metrics = self._evaluate(metric_key_prefix)
        self._events.evaluated(metrics)
        return metrics

    def save_model(self, output_dir: str | Path, *, overwrite: bool = False) -> None:
        """Write the trained model with its certificate in the model card.

        With ``keep_adapters`` the base model is not in the folder, which names it: by its name on the hub, or by the
        name of its folder without the path, which SentenceTransformer looks for in the working directory.

        Args:
            output_dir: A new folder, which SentenceTransformer can load; not the run folder.
            overwrite: Whether a folder that has files may be replaced.

        Raises:
            RunError: The run is not complete, or the model was changed after it.
            EncoderError: The folder has files.
        """
        certificate = self._certificate()
        self._shared.refuse_changed()
        if real_path(output_dir) == real_path(self._folder):
            raise ConfigError(
                "`output_dir` must be another folder than the run's, whose files are verified. Use a new one."
            )
        with new_folder(output_dir, overwrite=overwrite) as new:
            self._shared.save(new)
            write_card(new, certificate)

    def push_to_hub(
        self,
        repo_id: str | None = None,
        *,
        commit_message: str = "Add a model trained with differential privacy",
        private: bool | None = None,
        token: str | None = None,
        revision: str | None = None,
    ) -> str:
        """Upload the trained model with its certificate in the model card's metadata.

        Args:
            repo_id: Repository on the hub; hub_model_id unless given.
            commit_message: Message of the commit.
            private: Whether a new repository is private.
            token: Access token; the stored one unless given.
            revision: Branch to push to.

        Returns:
            The address of the commit.

        Raises:
            RunError: The run is not complete, or the model was changed after it.
        """
        from huggingface_hub import HfApi

        name = repo_id or self.args.hub_model_id
        if name is None:
            raise ConfigError("`repo_id` must be given, or hub_model_id in args, got neither.")
        self._certificate()
        api = HfApi(token=token)
        with tempfile.TemporaryDirectory() as home:
            self.save_model(Path(home) / "model")
            place = api.create_repo(repo_id=name, private=private, exist_ok=True)
            commit = api.upload_folder(
                repo_id=place.repo_id,
                folder_path=Path(home) / "model",
                commit_message=commit_message,
                revision=revision,
            )
        return str(commit.commit_url)

    def _begin(self) -> None:
        """Tell callbacks, which must leave the weights as they are here too."""
        objective, is_on = self._trainer._objective, self._events._runs_code_from_outside
        watch = WeightWatch(objective, is_on=is_on)
        self._events.begin()
        watch.check()

    def _check_resumption(self, resume: bool | None) -> None:
        """Refuse to go on with a run unasked, and a path in place of a run folder."""
        if resume not in (None, True, False):
            raise ConfigError(
                "`resume_from_checkpoint` must be true or false: a run resumes in its output_dir, got "
                f"{resume!r}."
            )
        if RunFolder(self._folder).has_run and not resume:
            raise ConfigError(
                f"`output_dir` must be new or empty, got {self._folder.name!r} with a run. Use "
                "train(resume_from_checkpoint=True) to resume it, or another folder."
            )

    def _evaluate(self, prefix: str = "eval") -> dict[str, float]:
        metrics = self._evaluations.run(
            epoch=self.state.epoch, steps=self.state.global_step, prefix=prefix
        )
        self.evaluations.append({"step": self.state.global_step, **metrics})
        return metrics

    def _certificate(self) -> Certificate:
        """Return the certificate.

        Raises:
            RunError: There is none yet.
        """
        if self.result is None:
            raise RunError(
                "The run must be complete to release its model, got one without a certificate. Call "
                "train(), with resume_from_checkpoint=True if it was stopped."
            )
        return self.result.certificate

    def _output(self, metrics: dict[str, float]) -> TrainOutput:
        return TrainOutput(self.state.global_step, math.nan, metrics)


def _checked_arguments(args: Any) -> PrivateTrainingArguments:
    """Return the arguments; stock ones lack the privacy settings, and the error says how to give them."""
    if is_stock(args):
        return PrivateTrainingArguments.from_sentence_transformers(args)
    if not isinstance(args, PrivateTrainingArguments):
        raise ConfigError(
            f"`args` must be PrivateTrainingArguments, got {type(args).__name__}. Give it output_dir and "
            "target_epsilon at least."
        )
    return args


def _checked_prompt(prompt: str | None, model: Any) -> str | None:
    """Refuse a prompt before texts of a model that leaves it out of the pooling."""
    pools = [m for m in model if hasattr(m, "include_prompt")] if prompt else []
    if any(not pooling.include_prompt for pooling in pools):
        raise ConfigError(
            f"`prompts` must be left out for a model that pools without the prompt, got {prompt!r}. Set "
            "model[1].include_prompt = True."
        )
    return prompt


def _require_release(
    args: PrivateTrainingArguments, capped: Any, folder: Path | None, run: RunFolder
) -> None:
    """Refuse to release private sizes a second time for a run that has them; one of another graph says so."""
    if args.sizes == "private" and not has_release(capped, folder):
        refuse_other_graph(run, capped.max_degree, capped.fingerprint)
        raise ConfigError(
            "`sizes` of a resumed run must be those that it was started with, got none for this graph here. "
            "Resume where it was started; releasing sizes again costs epsilon again."
        )


def _plan(
    args: PrivateTrainingArguments, capped: Any, folder: Path | None, pool: list[str] | None
) -> PrivacyPlan:
    """Return the plan; the number of steps follows from public bounds on the sizes, never from the sizes."""
    settings = args.plan_settings()
    if pool is not None:
        settings |= {"negatives": "public", "pool_size": len(pool)}
    if args.max_steps > 0:
        settings["num_steps"] = args.max_steps
    elif args.num_train_epochs is not None:
        names = ("sizes", "min_entities", "max_relations", "target_epsilon", "delta", "unit")
        known = {name: settings[name] for name in names if name in settings}
        relations = bounds_for(capped, folder=folder, for_run=True, **known).max_relations
        batch = args.expected_batch_size
        if batch is None:
            batch = suggest_settings(capped.max_degree, relations).expected_batch_size
        settings["num_steps"] = args.expected_steps(relations, batch)
    return PrivacyPlan.for_graph(capped, sizes_folder=folder, **settings)
