r"""A run as one TOML file: graph, encoder, privacy plan and training settings.

    [data]         the graph, and how its degrees are bounded
    [encoder]      the model, and which of its weights are trained
    [privacy]      fields of `PrivacyPlan`, with target_epsilon in place of noise_multiplier if wanted
    [learning]     fields of `LearningSettings`
    [performance]  fields of `PerformanceSettings`
    [logging]      fields of `LoggingSettings`

``reldp train`` reads such a file; its flags set the same values. Every name is checked: a misspelled
one is refused with the nearest one, never ignored. `Recipe.template` is a whole file with comments.

Inside the package: `Recipe`.

>>> recipe = Recipe.from_toml('[data]\ngraph = "wordnet-nouns"\n[privacy]\ntarget_epsilon = 4')
>>> recipe.values["privacy"]["target_epsilon"], recipe.values["data"]["max_degree"]
(4, 1)
>>> Recipe.from_toml("[privacy]\ntarget_epsilom = 4")
Traceback (most recent call last):
reldp.errors.ConfigError: `target_epsilom` must be a setting of [privacy]. Did you mean target_epsilon?
"""

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from reldp._real_path import real_path
from reldp._validate import check_integer, check_name, check_number
from reldp.accounting.calibration import SMALLEST_TARGET
from reldp.errors import ConfigError, PlanError, RunError
from reldp.runs.plain_files import read_plain
from reldp.training.config import SETTINGS, TrainingConfig, refuse_old_names
from reldp.training.loggers import check_loggers
from reldp.training.negative_defaults import (
    entities_note,
    settle_negatives,
    unfit_reason,
    with_negatives_of,
)
from reldp.training.negative_pool import POOL_BOUNDS, check_negatives, declared_pool, named_bound
from reldp.training.public_graphs import refuse_private_pool
from reldp.training.recipe_settings import SECTIONS, refuse_outside
from reldp.training.toml_text import MAX_BYTES, parse_recipe, toml_value
from reldp.training.unused_settings import refuse_unused_encoder, refuse_unused_learning

if TYPE_CHECKING:
    from reldp.encoders import Encoder
    from reldp.graph import CappedGraph
    from reldp.graph.holdout import Holdout
    from reldp.graph.sizes import SizeBounds
    from reldp.plan import PrivacyPlan
    from reldp.processes import Processes
    from reldp.training.selection import Selection
    from reldp.training.trainer import Trainer

__all__ = ["Recipe"]

_SIZES = ("sizes", "min_entities", "max_relations")
_FEATURE_SETTINGS = ("hidden", "dim", "activation", "normalize", "seed")
_OF_FEATURES = ("model", "hidden", "dim", "activation")
_TEXT_SETTINGS = tuple(name for name in SECTIONS["encoder"] if name not in _OF_FEATURES)


@dataclass(frozen=True)
class Recipe:
    """Checked settings of a run.

    Attributes:
        values: Settings by section and name; None where the default depends on the data or the model.
        has_default_negatives: Whether neither degree bound nor negatives were given.
        given: Settings of [encoder] that were given outside of a file, where defaults are written out, too.
    """

    values: Mapping[str, Mapping[str, Any]]
    has_default_negatives: bool = False
    given: frozenset[str] = frozenset()

    @classmethod
    def from_values(
        cls, given: Mapping[str, Mapping[str, Any]], *, outside_file: Any = None
    ) -> "Recipe":
        """Return the recipe with some settings by section and name, defaults for others; all given outside a file."""
        _refuse_old_section(given)
        values = {
            section: {name: deepcopy(setting.default) for name, setting in settings.items()}
            for section, settings in SECTIONS.items()
        }
        for section, settings in given.items():
            refuse_outside(section)
            check_name(section, SECTIONS, "a section of the recipe", error=ConfigError)
            if not isinstance(settings, Mapping):
                raise ConfigError(f"`{section}` must be a section, got {settings!r}.")
            refuse_old_names(settings)
            for name, value in settings.items():
                _refuse_misplaced(section, name)
                check_name(name, SECTIONS[section], f"a setting of [{section}]", error=ConfigError)
                SECTIONS[section][name].check(name, value)
                values[section][name] = value
        named = frozenset((given if outside_file is None else outside_file).get("encoder", ()))
        return cls(values, has_default_negatives=settle_negatives(values), given=named)

    @classmethod
    def from_toml(cls, text: str) -> "Recipe":
        """Return the recipe that a TOML text describes."""
        return cls.from_values(parse_recipe(text), outside_file={})

    @classmethod
    def read(cls, path: str | Path, changes: Mapping[str, Mapping[str, Any]]) -> "Recipe":
        """Return the recipe of a TOML file, with some settings changed."""
        try:
            given = parse_recipe(read_plain(real_path(path), limit=MAX_BYTES).decode("utf-8-sig"))
        except (OSError, RunError, UnicodeDecodeError) as error:
            is_binary = isinstance(error, UnicodeDecodeError)
            reason = (
                "it is not UTF-8 text" if is_binary else str(error).rpartition(": ")[2].rstrip(".")
            )
            raise ConfigError(f"The recipe {str(path)!r} could not be read: {reason}.") from None
        for section, settings in changes.items():
            written = given.get(section, {})
            if isinstance(written, Mapping):  # anything else is refused with its value
                given[section] = {**written, **settings}
        return cls.from_values(given, outside_file=changes)

    @staticmethod
    def template() -> str:
        """Return a TOML file with every setting, its default and what it does."""
        parts = []
        for section, settings in SECTIONS.items():
            lines = [f"[{section}]"]
            for name, setting in settings.items():
                lines += [f"# {line}" for line in setting.lines()]
                empty = setting.default is None
                written = setting.example if empty else toml_value(setting.default)
                lines.append(f"{'# ' if empty else ''}{name} = {written}")
            parts.append("\n".join(lines))
        return "\n\n".join(parts) + "\n"

    def trainer(
        self, *, show_ids: bool = False, resumed: bool | Path = False, budget: Path | None = None
    ) -> "Trainer":
        """Load and check everything; return a trainer that is ready to fit.

        Args:
            show_ids: Whether errors about the graph may show ids, which are sensitive.
            resumed: Whether a run is resumed, whose private sizes have been released before, or the folder of that run:
                its degree bound and negatives hold, unless others are given.
            budget: Folder of the budget, if one is named.
        """
        from reldp.plan import PrivacyPlan
        from reldp.processes import join_processes
        from reldp.training.chosen_loss import fitting_loss
        from reldp.training.trainer import Trainer

        if isinstance(resumed, Path) and self.has_default_negatives:
            started = Recipe(with_negatives_of(resumed, self.values), given=self.given)
            return started.trainer(show_ids=show_ids, resumed=resumed, budget=budget)
        settings = {
            name: value
            for section in SETTINGS
            for name, value in self.values[section].items()
            if value is not None
        }
        if not self.values["privacy"]["enabled"]:
            settings["clip"] = False
        # Mistakes must be found before sizes are released, because the release costs epsilon.
        target, delta = self._target(), self.values["privacy"]["delta"]
        if target is not None:
            check_number("target_epsilon", target, low=SMALLEST_TARGET, error=PlanError)
        if delta is not None:
            check_number("delta", delta, above=0, below=1, error=PlanError)
        if (num_steps := self.values["privacy"]["num_steps"]) is not None:
            check_integer("num_steps", num_steps, low=1, error=ConfigError)
        config = TrainingConfig.make(**settings)
        check_loggers(config.logging)
        refuse_unused_learning(self.values["learning"])
        capped, holdout = self._parts(show_ids)
        encoder, pool = self.encoder(capped), self.pool(show_ids)
        shares_entities = self.values["data"]["pool_shares_entities"]
        refuse_private_pool(pool, capped, holdout, shares_entities=shares_entities)
        selection = self._selection(capped, holdout, show_ids)
        clipping, negatives = (self.values["privacy"][n] for n in ("clipping", "negatives"))
        loss = fitting_loss(config.learning, clipping, negatives, capped.type_names, encoder)
        if selection is not None:
            selection.check(encoder.to(config.performance.device).eval(), loss)

        def make_plan() -> bytes:
            if resumed:
                self._require_release(capped, resumed)
            return self.plan(capped, pool).to_json().encode()

        # Sizes are released once, by the first process.
        processes = join_processes()
        self._refuse_second_release(capped, processes)
        plan = PrivacyPlan.from_json(processes.from_first(make_plan).decode())
        return Trainer(
            encoder,
            capped,
            plan,
            pool=pool,
            pool_shares_entities=shares_entities,
            selection=selection,
            holdout=holdout,
            budget=budget,
            **settings,
        )

    def capped(self, *, show_ids: bool = False) -> "CappedGraph":
        """Return the training graph with bounded degrees; errors show ids only on request."""
        return self._parts(show_ids)[0]

    @property
    def holdout(self) -> dict[str, Any] | None:
        """Share and seed of the entities to hold out, as in a ledger; None without a holdout."""
        data = self.values["data"]
        if data["holdout"] is None:
            if data["holdout_seed"] != 0:
                raise ConfigError("`holdout_seed` must be given with holdout only.")
            return None
        return {"share": float(data["holdout"]), "seed": data["holdout_seed"]}

    @property
    def negatives_note(self) -> str:
        """Why entities are drawn as negatives where neither they nor a degree bound were asked for; else empty."""
        privacy, data = self.values["privacy"], self.values["data"]
        if not self.has_default_negatives or privacy["negatives"] != "entities":
            return ""
        reason = unfit_reason({**data, **privacy, **self.values["learning"]})
        return entities_note(reason, data["max_degree"])

    def _parts(self, show_ids: bool) -> "tuple[CappedGraph, Holdout | None]":
        """Return the training graph, split first and capped then, and the split if there is one."""
        from reldp.graph.bundled import open_graph
        from reldp.graph.holdout import Holdout

        data = self.values["data"]
        if data["graph"] is None:
            raise ConfigError("`graph` must be given: a graph folder or the name of a bundled one.")
        split, holdout = self.holdout, None
        graph = open_graph(data["graph"], drop=data["drop"], show_ids=show_ids)
        if split is not None:
            holdout = Holdout.split(graph, **split)
            graph = holdout.train
        if data["promise_degrees"]:
            return graph.promise_degrees(data["max_degree"], show_ids=show_ids), holdout
        return graph.cap_degrees(data["max_degree"], seed=data["cap_seed"]), holdout

    def pool(self, show_ids: bool) -> Any:
        """Return the public graph that negatives come from, if one is named."""
        from reldp.graph.bundled import open_graph

        check_negatives(self.values)
        place = self.values["data"]["public_pool"]
        return None if place is None else open_graph(place, show_ids=show_ids)

    def _selection(
        self, capped: "CappedGraph", holdout: "Holdout | None", show_ids: bool
    ) -> "Selection | None":
        """Return the evaluations on a public graph that choose the weights, if one is named."""
        from reldp.graph.bundled import open_graph
        from reldp.training.selection import Selection

        data = self.values["data"]
        if data["eval_graph"] is None:
            if data["eval_every"] is not None or data["eval_shares_ids"]:
                raise ConfigError(
                    "`eval_every` and `eval_shares_ids` must be given with eval_graph only."
                )
            return None
        interval = 100 if data["eval_every"] is None else data["eval_every"]
        graph = open_graph(data["eval_graph"], show_ids=show_ids)
        return Selection(
            graph, interval, capped, shares_ids=data["eval_shares_ids"], holdout=holdout
        )

    def _target(self) -> float | None:
        """Return the target epsilon, or None where the noise is given or there is none."""
        privacy = self.values["privacy"]
        target = privacy["target_epsilon"]
        if not privacy["enabled"]:
            return None
        if (target is None) == (privacy["noise_multiplier"] is None):
            raise ConfigError(
                "`target_epsilon` or `noise_multiplier` must be given, and not both. "
                "Use `target_epsilon` to have the noise calibrated."
            )
        return None if target is None else float(target)

    def size_cost(self, capped: "CappedGraph", plan: "PrivacyPlan") -> str:
        """Return one sentence on the epsilon of private sizes; empty for other sizes."""
        from reldp.training.size_cost import size_cost

        if plan.sizes != "private":
            return ""
        return size_cost(plan, self.bounds(capped), self._target())

    def bounds(self, capped: "CappedGraph") -> "SizeBounds":
        """Return what the plan may know about the graph's sizes; private ones are drawn once and stored."""
        from reldp.graph.sizes import bounds_for

        privacy = self.values["privacy"]
        return bounds_for(
            capped,
            target_epsilon=self._target(),
            delta=privacy["delta"],
            unit=privacy["unit"],
            folder=self._folder(),
            **self._sizes(),
        )

    def _sizes(self) -> dict[str, Any]:
        """Return the mode of sizes and its bounds; a run without privacy uses exact sizes."""
        privacy = self.values["privacy"]
        if not privacy["enabled"]:
            return {"sizes": "public"}
        return {name: privacy[name] for name in _SIZES}

    def needs_release(self, capped: "CappedGraph") -> bool:
        """Return whether the plan needs private sizes that have not been released."""
        from reldp.graph.sizes import has_release

        return self._sizes()["sizes"] == "private" and not has_release(capped, self._folder())

    def _require_release(self, capped: "CappedGraph", resumed: bool | Path) -> None:
        """Refuse to release the sizes of a resumed run again; one of another graph says so."""
        from reldp.graph.size_store import FILE_NAME
        from reldp.runs.changes import refuse_other_graph
        from reldp.runs.run_folder import RunFolder

        if self.needs_release(capped):
            if isinstance(resumed, Path):
                refuse_other_graph(RunFolder(resumed), capped.max_degree, capped.fingerprint)
            raise ConfigError(
                "`sizes` of a resumed run must be those that it was started with, got none for this graph here. "
                f"Copy {FILE_NAME} into the graph's folder; releasing sizes again costs epsilon again."
            )

    def _refuse_second_release(self, capped: "CappedGraph", processes: "Processes") -> None:
        """Refuse to release private sizes on one machine if another has them, as after a move of the first process."""
        from reldp.graph.sizes import has_release

        if processes.is_alone or self._sizes()["sizes"] != "private":
            return
        known = processes.gather(bytes([has_release(capped, self._folder())]), about="releases")
        holders = [rank for rank, has_one in enumerate(known) if has_one == b"\x01"]
        if holders and holders[0] != 0:
            raise ConfigError(
                f"`sizes` must be released once, got a release on rank {holders[0]} that rank 0 does not see. Let all "
                "machines share the graph's folder or RELDP_STATE_DIR; releasing sizes again costs epsilon again."
            )

    def _folder(self) -> Path | None:
        """Return the graph's folder, where private sizes are stored; None for bundled graphs."""
        place = Path(self.values["data"]["graph"] or "")
        return place if place.is_dir() else None

    def plan(self, capped: "CappedGraph", pool: Any = None) -> "PrivacyPlan":
        """Return the plan for the graph; missing settings follow from the bounds on its sizes."""
        from reldp.plan import PrivacyPlan

        given = {k: v for k, v in self.values["privacy"].items() if v is not None}
        target = self._target()
        for name in ("enabled", "target_epsilon", *_SIZES):
            given.pop(name, None)
        if not self.values["privacy"]["enabled"]:
            given["noise_multiplier"] = 0.0
        sizes = self._sizes()
        if pool is None:
            pool_size = declared_pool(self.values["privacy"], sizes=sizes["sizes"])
        else:
            pool_size = int(pool.num_entities)
        for name in POOL_BOUNDS.values():
            given.pop(name, None)
        if pool_size is not None:
            given["pool_size"] = pool_size
        with named_bound(given["negatives"]):
            return PrivacyPlan.for_graph(
                capped, target_epsilon=target, sizes_folder=self._folder(), **sizes, **given
            )

    def encoder(self, capped: "CappedGraph") -> "Encoder":
        """Return the text model that is named; else layers on the graph's features, or MiniLM on its texts."""
        from reldp.encoders import FeatureEncoder, TextEncoder
        from reldp.encoders.default_model import DEFAULT_MODEL

        settings = self.values["encoder"]
        of_features = settings["model"] is None and capped.graph.features is not None
        refuse_unused_encoder(settings, self.given, of_features=of_features)
        if of_features:
            named = {n: settings[n] for n in _FEATURE_SETTINGS if settings[n] is not None}
            return FeatureEncoder.for_graph(capped, **named)
        named = {name: settings[name] for name in _TEXT_SETTINGS if settings[name] is not None}
        if settings["train"] == "head":
            named |= {"head_hidden": settings["hidden"], "head_dim": settings["dim"]}
        if "text" not in capped.graph.columns:  # found before sizes are released
            raise ConfigError(
                "`model` must be left out for a graph with features and no text: a linear layer is trained on them."
            )
        model = DEFAULT_MODEL if settings["model"] is None else settings["model"]
        return TextEncoder.load(model, **named)


def _refuse_misplaced(section: str, name: str) -> None:
    """Name the section that a setting belongs to, where it stands in another one."""
    homes = [home for home, settings in SECTIONS.items() if name in settings]
    if homes and section not in homes:
        raise ConfigError(
            f"`{name}` must be in the section [{homes[0]}], got it in [{section}]. Move it; on the command line, write "
            f"--set {homes[0]}.{name}=VALUE."
        )


def _refuse_old_section(given: Mapping[str, Any]) -> None:
    """Name the sections that took the place of [training] in earlier versions."""
    if "training" in given:
        raise ConfigError(
            f"`training` must be split into the sections {', '.join(f'[{name}]' for name in SETTINGS)}. "
            "Run reldp train --print-config to see which setting belongs where."
        )
