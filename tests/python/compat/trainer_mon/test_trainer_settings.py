# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Every key of TrainerMon's file: its default, what is allowed, and what a wrong value says."""

from __future__ import annotations

import json
import logging
import os
from pathlib import Path
from typing import Any

import pytest
from msprobe import Error, FormatError, InvalidArgument, IoError
from msprobe.compat.trainer_mon.settings import (
    TrainerSettings,
    read_settings,
    settings_of,
    switch_dynamic_off,
)


def test_an_empty_object_has_the_defaults_of_the_existing_tool() -> None:
    assert settings_of({}, "f") == TrainerSettings()


def test_without_targets_activations_are_those_of_all_modules() -> None:
    assert settings_of({"xy_distribution": True}, "f").all_xy
    assert not settings_of({"xy_distribution": True, "targets": {"fc": {}}}, "f").all_xy


@pytest.mark.parametrize(
    ("key", "value", "kind"),
    [
        *[
            (key, wrong, TypeError)
            for key in ("print_struct", "xy_distribution", "squash_name")
            for wrong in (1, "x")
        ],
        ("wg_distribution", None, TypeError),
        ("targets", [], TypeError),
        ("targets", {"fc": "all"}, TypeError),
        ("ops", "norm", TypeError),
        ("eps", 1, TypeError),
        ("eps", -1.0, TypeError),
        ("ndigits", 21, ValueError),
        ("ndigits", -1, ValueError),
        ("ndigits", 2.5, ValueError),
        ("step_count_per_record", 0, ValueError),
        ("step_count_per_record", 10**6 + 1, ValueError),
        ("step_count_per_record", True, TypeError),
        ("module_ranks", [True], TypeError),
        ("module_ranks", "0", TypeError),
        ("cc_distribution", [], TypeError),
        ("cc_distribution", {"cc_lines": []}, TypeError),
        ("cc_distribution", {"enable": 1}, TypeError),
        ("cc_distribution", {"cc_codeline": "x"}, TypeError),
        ("cc_distribution", {"cc_codeline": ["a[0"]}, ValueError),
        ("alert", [], TypeError),
        ("alert", {"dump": 1}, TypeError),
        ("alert", {"rules": {}}, TypeError),
        ("alert", {"rules": [{"rule_name": "AnomalyNone"}]}, TypeError),
        ("alert", {"rules": [{"rule_name": "AnomalyNan", "args": {"threshold": -1}}]}, TypeError),
        ("alert", {"rules": [{"rule_name": "AnomalyNan", "args": {"threshold": "x"}}]}, TypeError),
        ("alert", {"rules": [{"rule_name": "AnomalyNan", "args": [1]}]}, TypeError),
        ("append_output", ["Dec03", "Dec04"], InvalidArgument),
        ("append_output", ["Dec04_21-34-40", "Dec03_21-34-40"], InvalidArgument),
    ],
)
def test_a_wrong_value_is_refused_with_file_key_and_value(
    key: str, value: Any, kind: type[Exception]
) -> None:
    with pytest.raises(kind) as caught:
        settings_of({key: value}, "some.json")
    text = str(caught.value)
    assert text.startswith(f'some.json: "{key}')
    assert "expected" in text


@pytest.mark.parametrize(
    ("key", "value", "used"),
    [
        ("start_step", -1, 0),
        ("step_interval", 0, 1),
        ("step_interval", "2", 1),
        ("collect_times", 1.5, 100_000_000),
        ("start_step", True, 0),
        *[
            (key, value, bool(value))
            for key in (
                "all_xy", "backward_only", "forward_only", "mg_direction", "mv_distribution", "stack_info"
            )
            for value in (1, "x", 0, "")
        ],
        ("append_output", ["Dec03_21-34-40"], ()),
        ("append_output", "Dec03_21-34-40", ()),
    ],
)  # fmt: skip
def test_some_wrong_values_are_read_as_the_existing_tool_reads_them_with_a_warning(
    key: str, value: Any, used: int, caplog: pytest.LogCaptureFixture
) -> None:
    assert getattr(settings_of({key: value}, "f"), key) == used
    assert key in caplog.text


def test_a_rule_of_turbulence_without_a_threshold_is_left_out_with_a_warning(
    caplog: pytest.LogCaptureFixture,
) -> None:
    rules = [{"rule_name": "AnomalyTurbulence"}, {"rule_name": "AnomalyNan"}]
    assert settings_of({"alert": {"rules": rules}}, "f").rules == (("AnomalyNan", None),)
    assert 'rules[0]": expected a threshold' in caplog.text


def test_words_that_are_not_known_are_dropped_with_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    settings = settings_of({"ops": ["max", "median"], "format": "xml"}, "f")
    assert settings.ops == ("max", "shape", "dtype")
    assert settings.format == "csv"
    assert "median" in caplog.text
    assert "xml" in caplog.text
    assert settings_of({"ops": ["none"]}, "f").ops == ("norm", "shape", "dtype")


def test_a_mistyped_key_is_told_with_what_comes_close(caplog: pytest.LogCaptureFixture) -> None:
    settings_of({"xy_distributon": True}, "f")
    assert 'did you mean "xy_distribution"?' in caplog.text


def test_keys_inside_of_alert_that_are_not_known_are_told(caplog: pytest.LogCaptureFixture) -> None:
    rule = {"rule_name": "AnomalyNan", "args": {"treshold": 3}, "every": 2}
    settings_of({"alert": {"rules": [rule], "log": True}}, "some.json")
    expected = "there is no such key; expected some of rules, dump"
    assert f'some.json: "alert.log" is ignored: {expected}' in caplog.text
    assert '"alert.rules[0].every" is ignored' in caplog.text
    assert '"alert.rules[0].args.treshold" is ignored: there is no such key; did you mean' in caplog.text


def test_heat_maps_need_tensorboard(caplog: pytest.LogCaptureFixture) -> None:
    assert not settings_of({"ur_distribution": True}, "f").ur_distribution
    assert "tensorboard" in caplog.text
    assert settings_of({"ur_distribution": True, "format": "tensorboard"}, "f").ur_distribution


def test_each_file_is_of_a_quantity_of_the_one_table() -> None:
    from msprobe.compat.trainer_mon.outputs import WORDS
    from msprobe.monitoring.quantities import quantities

    recorded = [one for one in quantities() if one.name in WORDS]
    assert len(recorded) == len(WORDS)
    assert [one.name for one in quantities() if not one.group] == ["unreduced_gradient", "weight_before"]


def test_the_rules_of_alerts() -> None:
    rules = [
        {"rule_name": "AnomalyTurbulence", "args": {"threshold": 0.5}},
        {"rule_name": "AnomalyNan"},
        {"rule_name": "AnomalyNan", "args": {"threshold": 10}},
    ]
    settings = settings_of({"alert": {"rules": rules, "dump": True}}, "f")
    assert settings.rules == (("AnomalyTurbulence", 0.5), ("AnomalyNan", None), ("AnomalyNan", 10.0))
    assert settings.dump_anomalies


@pytest.mark.parametrize("text", ["", "[]", "{", "\xff", "[" * 100_000])
def test_a_file_that_is_no_object_names_itself(tmp_path: Path, text: str) -> None:
    path = tmp_path / "c.json"
    path.write_text(text, encoding="latin-1")
    with pytest.raises(FormatError, match=r"c\.json: expected"):
        read_settings(path)


def test_a_file_that_is_not_there_names_itself(tmp_path: Path) -> None:
    with pytest.raises(IoError, match="absent"):
        read_settings(tmp_path / "absent.json")


def test_switching_off_keeps_the_rest_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "c.json"
    path.write_text(json.dumps({"dynamic_on": True, "note": "ä", "ops": ["max"]}))
    switch_dynamic_off(path)
    assert json.loads(path.read_text()) == {"dynamic_on": False, "note": "ä", "ops": ["max"]}


def test_steps_that_are_wanted() -> None:
    settings = settings_of({"step_interval": 3}, "f")
    assert [step for step in range(12) if settings.wants(step, 4)] == [4, 7, 10]


def test_errors_of_files_are_errors_of_msprobe(tmp_path: Path) -> None:
    logging.getLogger("msprobe").debug("")  # nothing but the class is looked at
    with pytest.raises(Error):
        read_settings(os.fspath(tmp_path))
