# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""The progress bar: a clock and a screen that the test moves."""

from __future__ import annotations

import io
import threading
from types import SimpleNamespace

import pytest
from msprobe.terminal import progress
from msprobe.terminal.progress import Progress, Working


class Screen(io.StringIO):
    terminal = True

    def isatty(self):
        return self.terminal


@pytest.fixture
def clock(monkeypatch):
    now = [100.0]
    monkeypatch.setattr(progress, "time", SimpleNamespace(monotonic=lambda: now[0]))
    return now


@pytest.fixture
def screen(monkeypatch):
    found = Screen()
    monkeypatch.setattr(progress, "sys", SimpleNamespace(stderr=found))
    return found


def test_bytes_show_their_rate_and_the_time_that_is_left(clock, screen):
    with Progress("ckpt", in_bytes=True) as shown:
        clock[0] += 2
        shown(3_000_000_000, 12_000_000_000)
        assert screen.getvalue() == f"\rckpt [{'#' * 7}{'.' * 23}] 3.0/12.0 GB, 1.50 GB/s, 6 s left  "
    assert screen.getvalue().endswith("\r\033[K")  # nothing stays


def test_pieces_are_counted_and_not_drawn_too_often(clock, screen):
    with Progress("pictures") as shown:
        shown(1, 4)  # too early
        assert screen.getvalue() == ""
        clock[0] += 1
        shown(2, 4)
        shown(3, 4)  # too soon after
    assert screen.getvalue() == f"\rpictures [{'#' * 15}{'.' * 15}] 2/4 \r\033[K"


def test_quiet_there_is_none(clock, screen):
    with Progress("pictures", shown=False) as shown:
        clock[0] += 11
        shown(2, 4)
        shown(0, 0)
    assert screen.getvalue() == ""


def test_the_log_of_a_job_has_a_line_now_and_then(clock, screen):
    screen.terminal = False
    with Progress("compare") as shown:
        for done in range(1, 26):
            clock[0] += 1
            shown(done, 40)
    assert screen.getvalue() == "msprobe: compare 10/40\nmsprobe: compare 20/40\n"


def test_work_that_does_not_say_how_far_it_is_says_that_it_goes_on(monkeypatch):
    """In the log of a job, too: each ten seconds, which are short here."""
    told = threading.Event()

    class Log(io.StringIO):
        def flush(self):
            told.set()

    log = Log()
    monkeypatch.setattr(progress, "_LINE_INTERVAL", 0.01)
    monkeypatch.setattr(progress, "sys", SimpleNamespace(stderr=log))
    with Working("verdict of 3072 dumps"):
        assert told.wait(30)
    lines = log.getvalue().splitlines()
    assert set(lines) == {"msprobe: verdict of 3072 dumps, 0 s"}
    assert log.getvalue().count("\n") == len(lines)
    with Working("quiet", shown=False):
        pass
    assert "quiet" not in log.getvalue()
