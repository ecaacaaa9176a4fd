# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Where kept values leave those of the reference by more than this leaves itself."""

from __future__ import annotations

import json

import pytest
import torch
from msprobe.experiment import kept
from msprobe.experiment.digests import Parting
from msprobe.experiment.ruler import Ruler
from msprobe.hunt.candidates import Setting
from msprobe.hunt.values import NotRepeated, Put, proved_by_values

STEPS = (1, 3)


@pytest.fixture
def run(tmp_path):
    """run(name, loss, weight, gradient) -> the folder of a run that kept steps 1 and 2. In step 2 the weight
    is off by more.
    """

    def make(name, loss=1.0, weight=0.0, gradient=0.0, bias=0.0, steps=3):
        folder = tmp_path / name
        folder.mkdir()
        lines = [json.dumps({"step": step}) + "\n" for step in range(steps)]
        (folder / "digest.rank0.jsonl").write_text("".join(lines))
        rows = [f"{step},{loss if step else 1.0},1\n" for step in range(steps)]
        (folder / "losses.rank0.csv").write_text("step,loss,backward_calls\n" + "".join(rows))
        for step in range(*STEPS):
            values = {
                "update.weights.w": torch.ones(64) + weight * step,
                "update.weights.b": torch.ones(1) + bias * step,
                "gradients.w": torch.ones(64) + gradient,
                "update.state.w.step": torch.tensor(step + 1.0),
            }
            kept.write(kept.path_of(folder, step, rank=0), values, {})
        return folder

    return make


@pytest.fixture
def ruler(run):
    return Ruler(run("reference"), run("again", 1 + 1e-6, 1e-6, 1e-6), STEPS)


@pytest.mark.parametrize(
    ("options", "kind", "step"),
    [
        ({}, None, 0),
        ({"loss": 1 + 2e-6, "weight": 2e-6, "gradient": -2e-6}, None, 0),  # as far as the noise
        ({"loss": 1 + 1e-5}, "loss", 1),
        ({"loss": float("nan")}, "loss", 1),
        ({"gradient": 1e-5}, "gradients", 1),
        ({"weight": 1e-5}, "weights", 1),
        ({"weight": 4e-6}, "weights", 2),  # in step 1 within the noise of step 2
        ({"bias": 2e-6}, None, 0),  # one element, equal by chance: as far as all weights
        ({"bias": 1e-4}, "weights", 1),
        ({"steps": 2}, "steps", 2),
    ],
)
def test_where_a_run_leaves_the_reference_beyond_its_noise(run, ruler, tmp_path, options, kind, step):
    found = ruler.parting(tmp_path / "reference", run("run", **options), ())
    if kind is None:
        assert found is None
        return
    assert found is not None
    assert (found.kind, found.step) == (kind, step)
    assert ruler.parting(tmp_path / "reference", tmp_path / "run", (kind,)) is None or kind == "steps"


def test_a_gradient_that_one_run_alone_has_is_beyond_all_noise(run, ruler, tmp_path):
    other = run("run")
    kept.write(kept.path_of(other, 1, rank=0), {"update.weights.w": torch.ones(64)}, {})
    found = ruler.parting(tmp_path / "reference", other, ())
    assert found == Parting(1, 0, "gradients", ("w",))


class Runs:
    """In the place of those of a hunt: folders that are there."""

    made_again = ()

    def __init__(self, kept, again, mended, broken):
        self._kept, self._again = kept, again
        self._with_settings = {"target": mended, "reference": broken}
        self.put_in = []

    def both_keep(self, *_, **__):
        return self._kept

    def run(self, *_, **__):
        return self._again

    def tried(self, side, changes, **_):
        self.put_in += [change.name for change in changes if change.name.startswith("feed.")]
        return self._with_settings[side]

    def note_parting(self, *_):
        pass


@pytest.fixture
def proved(run):
    """proved(repeats, distance of the target that has the reference's setting) -> what is proved, put in."""

    def prove(repeats, distance):
        kept = [run("reference"), run("target", weight=1.0)]
        mended = run("mended", 1 + distance, distance, distance)
        runs = Runs(kept, run("again", 1 + 1e-6, 1e-6, 1e-6), mended, run("broken", weight=1.0))
        at = Parting(STEPS[0], 0, "loss")
        settings = [Setting("0.eps", "0.1", "1e-5", 1, "0.eps")]
        try:
            found = proved_by_values(
                runs, [Put("feed.weights", at, [])], at, settings, lambda *_: [], repeats
            )
        finally:
            assert not runs.put_in or distance > 1e-6
        return found, runs.put_in

    return prove


def test_nothing_is_put_in_before_the_noise_is_measured(proved):
    with pytest.raises(NotRepeated):
        proved(lambda *_: False, 0.0)


def test_what_is_within_the_noise_is_no_second_cause(proved):
    found, put_in = proved(None, 1e-6)
    assert (found.puts, found.words, found.leaves.kind, put_in) == ((), "within its noise", "weights", [])
    assert found.is_target


def test_what_is_beyond_the_noise_is_searched_for(proved):
    assert proved(None, 1e-3) == (None, ["feed.weights"])
