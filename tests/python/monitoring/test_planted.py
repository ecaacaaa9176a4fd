# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""The default rules say something when it goes wrong, and nothing when it does not."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from monitor_events import EVENT, EVENTS, HEALTHY, STEPS, Event, Healthy, train

# The others take a second each, and more on a busy machine.
ALL = "monitor" in os.environ.get("MSPROBE_TEST_SLOW", "")


@pytest.mark.parametrize("event", EVENTS if ALL else EVENTS[:1], ids=lambda event: event.__name__)
def test_an_alarm_comes_before_the_loss_shows_it(event: Event, tmp_path: Path) -> None:
    steps = STEPS if ALL else EVENT + 5
    outcome = train(tmp_path, HEALTHY[0], event, steps)
    assert outcome.first_alarm is not None
    assert EVENT <= outcome.first_alarm <= (outcome.loss_shows or steps)


@pytest.mark.skipif(not ALL, reason="MSPROBE_TEST_SLOW=monitor runs the healthy trainings")
@pytest.mark.parametrize("setting", HEALTHY, ids=lambda setting: setting.name)
def test_a_healthy_training_raises_none(setting: Healthy, tmp_path: Path) -> None:
    assert [alarm["message"] for alarm in train(tmp_path, setting).alarms] == []
