"""Runs that stop before a step, and what becomes of copies of their folders."""

import shutil

import pytest

import reldp.training.trainer as trainer_module
from reldp.training import Trainer
from tests.training.small import small_parts

SETTINGS = {"checkpoint_every": 4}
TAKE = trainer_module.TrainingLoop._take


class Stopped(Exception):
    """The machine stopped."""


def failing_at(patch, at):
    """Let every run stop before a step."""

    def failing(self, step):
        if step == at:
            raise Stopped
        return TAKE(self, step)

    patch.setattr(trainer_module.TrainingLoop, "_take", failing)


def stopped(monkeypatch, folder, *parts, at=6, **settings):
    """A run in a folder that stopped before a step."""

    def dying(self, step):
        if step == at:
            raise Stopped
        return TAKE(self, step)

    with monkeypatch.context() as patch:
        patch.setattr(trainer_module.TrainingLoop, "_take", dying)
        with pytest.raises(Stopped):
            Trainer(*parts, **SETTINGS, **settings).fit(folder)
    return folder


def resumed(folder, *parts, settings=None, **more):
    chosen = SETTINGS if settings is None else settings
    return Trainer(*(parts or small_parts()), **chosen, **more).fit(folder)


def copied(folder, name="copy"):
    return shutil.copytree(folder, folder.with_name(name))
