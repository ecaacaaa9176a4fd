# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Rules over series, and what happens when one of them raises an alarm."""

from __future__ import annotations

import datetime
import functools
import json
import os
import subprocess
import threading
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from msprobe.config import RuleConfig
from msprobe.files.append_file import append_lines
from msprobe.files.atomic_file import make_directory
from msprobe.monitoring.anomalies import TAGS, Anomaly, AnomalyFile
from msprobe.native import IoError, core, log

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from msprobe._core import MonitorRule, MonitorSession
    from msprobe.config import AlarmConfig

FILE = "alarms.jsonl"
_MOST_OF_STEP = 20  # written of a step: when everything diverges at once, the rest says nothing new
_COMMAND_SECONDS = 600
_WEBHOOK_SECONDS = 10
_MOST_AT_ONCE = 4  # commands, and calls of the webhook, that have not ended


@dataclass(frozen=True)
class Alarm:
    """One line of alarms.jsonl."""

    time: str
    step: int
    rule: str
    series: str
    value: float | str  # a NaN or an infinity is a word
    expected: float | None
    score: float | str  # how far beyond the limit of the rule, 1 at the limit
    message: str
    rank: int


def rules_of(wanted: Sequence[RuleConfig] | None) -> list[MonitorRule]:
    """The native rules; None: the default ones."""
    if wanted is None:
        return core.monitor_default_rules()
    rules = []
    for one in wanted:
        if one.rule == "default":
            rules += core.monitor_default_rules()
        else:
            options = {
                key: value for key, value in asdict(one).items() if key not in ("rule", "name", "series")
            }
            rules.append(core.MonitorRule(one.rule, name=one.name, series=list(one.series), **options))
    return rules


class Alarms:
    """What is done about the alarms of each step. Nothing here raises.

    names: of the rules of the session.
    on_alarm: called with the first alarm of a step, at most once in a cooldown.
    functions: rules of the user: function(numbers, step=step) returns the keys of the series that alarm it.
    tells: False: another process sees the same numbers and says what there is to say; this one only calls
        on_alarm.
    """

    def __init__(
        self,
        names: Sequence[str],
        actions: AlarmConfig,
        folder: Path,
        rank: int,
        on_alarm: Callable[[Alarm], None] | None = None,
        *,
        functions: Sequence[Callable[..., Any]] = (),
        tells: bool = True,
    ) -> None:
        self._tells = tells
        self._names = list(names)
        self._functions = dict(enumerate(functions, len(self._names)))
        self._names += [getattr(one, "__name__", type(one).__name__) for one in functions]
        self._actions = actions
        self._folder = folder
        self._rank = rank
        self._on_alarm = on_alarm
        self._written = 0
        self._quiet_until: int | None = None
        self._anomalies: AnomalyFile | None = None
        self._complained = False
        self._behind = {"command": _Behind(), "webhook": _Behind()}

    def check(self, step: int, session: MonitorSession) -> list[Alarm]:
        """What the rules of the session, and the functions, say of the numbers that it has of a step."""
        found = [*session.check(step), *self._ask_functions(step, session)]
        if not found:
            return []
        keys = session.keys
        alarms = [self._alarm(step, keys[one[0]], *one[1:]) for one in found[:_MOST_OF_STEP]]
        if self._tells:
            more = f"; {len(found) - 1} other series, too" if len(found) > 1 else ""
            log.warning("%s%s", alarms[0].message, more)
            self._write(alarms, [one[0] for one in found[:_MOST_OF_STEP]])
        if self._quiet_until is None or step >= self._quiet_until:
            self._quiet_until = step + self._actions.cooldown
            self._act(alarms[0])
        return alarms

    def _ask_functions(
        self, step: int, session: MonitorSession
    ) -> list[tuple[int, int, float, float, float]]:
        """As the native rules answer: series, rule, value, expected, score."""
        if not self._functions:
            return []
        found = []
        values, keys = session.numbers(), session.keys
        for place, function in list(self._functions.items()):
            try:
                answer = function(dict(values), step=step)
                for key in [answer] if isinstance(answer, str) else answer or ():
                    found.append((keys.index(key), place, values[key], float("nan"), 1.0))
            except Exception as error:
                log.warning(
                    "monitor: rule %s: %s: %s: it is not asked any more",
                    self._names[place],
                    type(error).__name__,
                    error,
                )
                del self._functions[place]
        return found

    def _alarm(self, step: int, key: str, rule: int, value: float, expected: float, score: float) -> Alarm:
        name = self._names[rule]
        normal = (
            "" if expected != expected else f", {'limit' if score and name else 'expected'} {expected:.6g}"
        )
        return Alarm(
            time=datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
            step=step,
            rule=name,
            series=key,
            value=_json_number(value),
            expected=None if expected != expected else expected,
            score=_json_number(score),
            message=f"step {step}: {key} is {value:.6g}{normal} (rule {name})",
            rank=self._rank,
        )

    def _write(self, alarms: list[Alarm], series: list[int]) -> None:
        left = self._actions.most - self._written
        if left <= 0:
            return
        alarms, series = alarms[:left], series[:left]
        self._written += len(alarms)
        if self._written >= self._actions.most:
            log.warning(
                "monitor: %d alarms are written, as many as wanted: later ones are only logged", self._written
            )
        try:
            make_directory(self._folder)
            append_lines(self._folder / FILE, "".join(json.dumps(asdict(one)) + "\n" for one in alarms))
            if self._anomalies is None:
                self._anomalies = AnomalyFile(self._folder, self._rank)
            self._anomalies.add(_anomaly(one, number) for one, number in zip(alarms, series))
        except IoError as error:
            if not self._complained:
                log.warning("%s; training goes on", error)
            self._complained = True

    # ---- actions

    def _act(self, alarm: Alarm) -> None:
        for what, wanted, call in (
            ("command", self._actions.command, self._call_command),
            ("webhook", self._actions.webhook, self._call_webhook),
        ):
            if wanted and self._tells:
                _guarded(what, functools.partial(self._behind[what].start, what, call, alarm))
        if self._on_alarm is not None:
            act = self._on_alarm
            _guarded("dump", lambda: act(alarm))

    def _call_command(self, alarm: Alarm) -> None:
        """It gets the alarm as JSON on its standard input and in MSPROBE_ALARM; nobody waits for it."""
        text = json.dumps(asdict(alarm))
        process = subprocess.Popen(
            list(self._actions.command),
            stdin=subprocess.PIPE,
            env={**os.environ, "MSPROBE_ALARM": text},
            start_new_session=True,
        )

        try:
            process.communicate(text.encode(), timeout=_COMMAND_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            log.warning("monitor: the command of an alarm ran for %d s and was ended", _COMMAND_SECONDS)
        except OSError:
            process.wait()  # it does not read what it is given

    def _call_webhook(self, alarm: Alarm) -> None:
        import urllib.request

        request = urllib.request.Request(
            self._actions.webhook,
            data=json.dumps(asdict(alarm)).encode(),
            headers={"Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=_WEBHOOK_SECONDS):
            pass


class _Behind:
    """Threads behind the training, a few at once: where an address never answers, or a command does not end,
    what comes meanwhile is left out.
    """

    def __init__(self) -> None:
        self._free = threading.BoundedSemaphore(_MOST_AT_ONCE)
        self._has_told = False

    def start(self, what: str, call: Callable[[Alarm], None], alarm: Alarm) -> None:
        if not self._free.acquire(blocking=False):
            if not self._has_told:
                log.warning(
                    "monitor: the %s of %d alarms has not ended: those that come meanwhile do without",
                    what,
                    _MOST_AT_ONCE,
                )
            self._has_told = True
            return

        def work() -> None:
            try:
                _guarded(what, lambda: call(alarm))
            finally:
                self._free.release()

        try:
            threading.Thread(target=work, daemon=True).start()
        except RuntimeError:  # there are as many as the system allows
            self._free.release()
            raise


def _guarded(what: str, work: Callable[[], None]) -> None:
    try:
        work()
    except Exception as error:
        log.warning("monitor: the %s of an alarm: %s: %s", what, type(error).__name__, error)


def _json_number(value: float) -> float | str:
    if value != value:
        return "NaN"
    if value in (float("inf"), float("-inf")):
        return "Infinity" if value > 0 else "-Infinity"
    return value


def _anomaly(alarm: Alarm, series: int) -> Anomaly:
    """As a record of mindstudio-probe, for its ranking."""
    quantity, _, name = alarm.series.partition("/")
    task = TAGS.get(quantity.partition(".")[0], quantity)
    return Anomaly(
        rank=alarm.rank,
        step=alarm.step,
        micro_step=0,
        pp_stage=0,
        vpp_stage=0,
        call_id=series,
        tag_name=f"0:{name}/rank{alarm.rank}/{task}",
        message=alarm.message,
        group_mates=[alarm.rank],
    )
