# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Modules that are kept, transplanted, or computed in another precision: with the module of the reference the
target follows it to the bit, with its own it is itself; what cannot be answered ends the process.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import planted_modules as planted
import pytest
import torch
from msprobe.experiment.at_modules import AtModules
from msprobe.experiment.changes import check, recorders
from msprobe.experiment.inside import keepers
from msprobe.experiment.made_again import read_made_again
from msprobe.experiment.plan import Change
from msprobe.native import InvalidArgument
from msprobe.recording.recorded_training import RecordedTraining
from msprobe.training.phases import CallWatch, module_call_operator

SCRIPT = str(Path(planted.__file__))


def trained(made, fault, form):
    session = RecordedTraining(lambda: made)
    session.install()
    try:
        return planted.train(fault, form)
    finally:
        session.close()
        session.forget_models()


def kept(folder, fault, form, module="m"):
    folder.mkdir()
    return trained(keepers(folder, range(3), (), (module,)), fault, form)


def changed(name, value, fault, form):
    changes = (Change(name, str(value)),)
    check(changes)
    return trained(recorders(changes), fault, form)


@pytest.mark.parametrize("form", planted.FORMS)
@pytest.mark.parametrize("fault", planted.FAULTS)
def test_the_module_of_the_reference_mends_the_target(tmp_path, fault, form):
    reference = kept(tmp_path / "a", "none", form)
    target = kept(tmp_path / "b", fault, form)
    assert reference == planted.train("none", form)  # what is kept is computed as ever
    assert reference != target
    assert changed("transplant.m", tmp_path / "b", fault, form) == target
    assert changed("transplant.m", tmp_path / "a", fault, form) == reference
    assert changed("transplant.m", tmp_path / "b", "none", form) == target


@pytest.mark.parametrize("form", planted.FORMS)
@pytest.mark.parametrize("fault", planted.FAULTS)
def test_a_module_made_again_tells_whether_it_makes_the_difference(tmp_path, fault, form):
    def kept_with(name, fault, again=None):
        (tmp_path / name).mkdir()
        modules = keepers(tmp_path / name, range(3), (), ("m", "last"), 0, again)
        return trained(modules, fault, form)

    reference = kept_with("a", "none")
    assert reference == planted.train("none", form)
    plain = kept_with("c", fault)
    assert kept_with("b", fault, tmp_path / "a") == plain  # the training goes on as if nothing was made again
    found = read_made_again(tmp_path / "b", 0)
    assert {one.module for one in found} == {"m", "last"}
    assert not any(one.makes_difference for one in found if one.module == "last")
    assert not any(one.is_inherited for one in found if one.module == "m" and one.call == 0)
    if form not in (
        "checkpoint",
        "reentrant",
    ):  # computed twice: their gradients are those of the second call
        assert any(one.makes_difference for one in found if one.module == "m")
        came_in = any(one.is_inherited for one in found if one.module == "last")
        assert came_in == (fault in ("forward", "draws"))


def test_the_gradient_of_the_loss_is_that_of_the_reference(tmp_path):
    reference = kept(tmp_path / "a", "none", "plain", "")
    target = changed("feed.loss", tmp_path / "a", "loss", "plain")
    assert target != planted.train("loss", "plain")
    assert [weights for _, weights in target] == [weights for _, weights in reference]


def test_a_call_that_is_seen_twice_is_one_call(tmp_path):
    """As where a recorder calls the operator anew inside of a call."""
    answered = []

    class Seeing(AtModules):
        def answer(self, path, number, call, args, kwargs):
            answered.append((path, number))
            return call(*args, **kwargs)

    inner = []

    def anew(original, args, kwargs):
        if inner:
            return original(*args, **kwargs)
        inner.append(True)
        return module_call_operator()(*args, **kwargs)

    model = torch.nn.Sequential(torch.nn.Linear(2, 2))
    watch, seeing = CallWatch(module_call_operator(), anew), Seeing(("", "0"))
    watch.install()
    seeing.models_found([model])
    try:
        seeing.begin_step(0)
        model(torch.ones(2))
    finally:
        seeing.close()
        watch.remove()
    assert answered == [("0", 0), ("", 0)]


@pytest.mark.parametrize(
    ("module", "form", "said"),
    [
        ("other", "plain", "nothing of other was kept"),
        ("m", "twice", "m: is called more often in step 0"),
        ("m", "tuple", "m: returns 2 tensors"),
    ],
)
def test_what_cannot_be_answered_ends_the_process(tmp_path, module, form, said):
    kept(tmp_path / "a", "none", "plain")
    with pytest.raises(SystemExit, match=said):
        changed(f"transplant.{module}", tmp_path / "a", "none", form)


@pytest.mark.parametrize(
    ("module", "form", "said"),
    [("x", "plain", "no module of this name"), ("m", "compiled", "m: no call of it is seen in step 0")],
)
def test_what_cannot_be_kept_ends_the_process(tmp_path, module, form, said):
    with pytest.raises(SystemExit, match=said):
        kept(tmp_path / "a", "none", form, module)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ((("transplant.m", "nothing"),), "expected the folder of a run"),
        ((("precision.m", "int8"),), "expected one of float64, float32"),
        ((("precision.m", "float64"), ("precision.m.norm", "float64")), "m.norm: is answered already, by m"),
    ],
)
def test_changes_that_are_none(changes, said):
    with pytest.raises(InvalidArgument, match=said):
        check([Change(*one) for one in changes])


@pytest.mark.parametrize("form", planted.FORMS)
def test_a_module_in_another_precision(form):
    plain = planted.train("none", form)
    assert changed("precision.m", "float32", "none", form) == plain
    higher = changed("precision.m", "float64", "none", form)
    assert higher != plain
    for one, other in zip(higher, plain):
        assert one == pytest.approx(other, rel=1e-4)


def test_the_command(tmp_path):
    def output(*words, fault):
        command = [sys.executable, "-m", "msprobe", "run", "--quiet", "--without", "config"]
        return subprocess.check_output([*command, *words, SCRIPT, fault, "plain"], cwd=tmp_path, text=True)

    reference = output("-o", "a", "--keep", "m", fault="none")
    assert output("-o", "b", "--transplant", "m=a", fault="forward") == reference
