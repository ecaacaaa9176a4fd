# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""What each feature says of two runs, in the form that msprobe diagnose puts in order."""

from __future__ import annotations

from dataclasses import dataclass, replace
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING

from msprobe.compare.across_frameworks import FOLDER, aligned, are_of_two
from msprobe.config_check import wording
from msprobe.diagnose.answer import PartResult
from msprobe.diagnose.figures import rounded, told_apart
from msprobe.diagnose.gaps import of_gradients, of_runs
from msprobe.diagnose.gradient_names import as_pytorch, renamed
from msprobe.diagnose.losses import Evidence, alone, compare_ranks, read_ranks
from msprobe.diagnose.part_causes import (
    equal_stages,
    is_setting,
    of_checkpoint,
    of_culprit,
    of_gradient,
    of_set_up,
    of_setting,
)
from msprobe.files.dump_folders import STEP, framework_of, numbered
from msprobe.files.left_out import LeftOut, left_out, only_in
from msprobe.files.loss_files import is_loss_file
from msprobe.files.noise_answer import find_answers, merged, read_answer
from msprobe.files.ranges import which_ranks
from msprobe.files.run_folder import offset_of, optimizer_calls_of
from msprobe.native import Error, NothingToCompare, core, log
from msprobe.terminal.progress import Working

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from msprobe.compare.culprit import Culprit
    from msprobe.compare.result import CompareResult
    from msprobe.diagnose.answer import PartStatus
    from msprobe.diagnose.cause import Cause, Part
    from msprobe.diagnose.run_folder import RunFolder

# From this confidence on a setting explains a numeric difference by itself.
_LIKELY = 0.84
_MOST_EVIDENCE = 5

_STATUS_OF_CONFIG: dict[str, PartStatus] = {"agree": "equal", "differ": "differ", "incomplete": "incomplete"}


@dataclass(frozen=True)
class DiagnoseOptions:
    """How two runs are compared."""

    shows_progress: bool
    noise: Sequence[Path] = ()
    """Answers of `msprobe perturb`, or repeated runs of the reference."""
    offset: int | None = None
    """The step of the reference at which the target begins; None: as the runs say."""
    all_tables: bool = False
    """Of the dumps of all steps and ranks, not only of the one in question."""
    cells: Mapping[str, str] | None = None
    """Of a run of MindSpore and one of PyTorch, Cells whose path is another one."""

    def offset_of(self, reference: RunFolder, target: RunFolder) -> int:
        return offset_of(target.path, reference.path, self.offset)


class Comparison:
    """The comparison of two runs, part by part; reports go below `output`."""

    is_joined = False
    """Each run is read as one logical process."""

    def __init__(self, a: RunFolder, b: RunFolder, output: Path, options: DiagnoseOptions) -> None:
        """Raises FormatError and IoError."""
        self.offset = options.offset_of(a, b)
        self._options = options
        self._known = merged(read_answer(file) for run in options.noise for file in find_answers(run))
        self._a = a
        self._b = b
        self._output = output
        self.dump_result: CompareResult | None = None
        self.culprits: list[Culprit] = []
        self.notes: list[str] = []
        self.noticed: list[str] = []
        """What differs in the dumps without consequence."""
        self.is_across = are_of_two(a.dump, b.dump) if a.dump and b.dump else False
        """One run is of MindSpore, the other one of PyTorch."""
        self._pair: tuple[Path, Path] | None = None

    @property
    def parts(self) -> list[tuple[Part, Callable[[], PartResult]]]:
        """In the order in which they are compared: what a dump says is evidence for losses and gradients."""
        return [
            ("config", self._config),
            ("checkpoint", self._checkpoint),
            ("dump", self._dump),
            ("losses", self._losses),
            ("gradients", self._gradients),
        ]

    @property
    def rank_count(self) -> int:
        """How many ranks were compared; of one an answer does not name it."""
        if self.dump_result is not None:
            return len({pair.rank for pair in self.dump_result.pairs})
        return max(self._a.processes, self._b.processes)

    @property
    def left_out(self) -> list[LeftOut]:
        return of_runs(self._a, self._b)

    def begin_alike(self) -> bool:
        """Whether both see the same data and weights in their first step."""
        return not self.offset

    def compare(self, part: Part, look: Callable[[], PartResult]) -> PartResult:
        """A part that cannot be compared says why, and the others go on."""
        have = [self._part_of(run, part) for run in (self._a, self._b)]
        if not any(have):
            return PartResult(part, "absent", "neither run has it")
        if not all(have):
            alone = only_in("reference" if have[0] else "target")
            # msprobe run writes no checkpoints, and of MindSpore no pack.
            is_missing = part != "checkpoint" and not (part == "config" and self.is_across)
            alone = replace(alone, is_difference=is_missing)
            return PartResult(part, "absent", f"only {self._only(have)} has it", not_compared=(alone,))
        try:
            return look()
        except Error as error:
            # Of a run that was resumed, other steps than those of the reference may be recorded.
            apart = bool(self.offset) and isinstance(error, NothingToCompare)
            return PartResult(part, "absent" if apart else "failed", str(error))

    def _only(self, have: list[object]) -> str:
        return str((self._a if have[0] else self._b).path)

    def _part_of(self, run: RunFolder, part: Part) -> object:
        return {
            "config": run.pack,
            "checkpoint": run.checkpoint,
            "losses": run.losses,
            "gradients": run.gradients,
            "dump": run.dump,
        }[part]

    # ---- the parts

    def _config(self) -> PartResult:
        from msprobe.config_check.checks.check_result import ERROR
        from msprobe.config_check.comparison import compare_packs
        from msprobe.config_check.outputs import check_output, write_outputs
        from msprobe.config_check.packs.pack_reader import read_pack

        assert self._a.pack is not None
        assert self._b.pack is not None
        folder = self._output / "config"
        check_output(folder, (self._a.pack, self._b.pack))
        with (
            read_pack(self._a.pack) as reference,
            read_pack(self._b.pack) as target,
            Working("config packs", shown=self._options.shows_progress),
        ):
            result = compare_packs(reference, target, begin_alike=self.begin_alike())
            files = write_outputs(folder, result, reference, target, with_packs=False)
        self.notes += [f"config: {said}" for said in result.parted_replicas]
        errors = [one for one in result.ranked if one.difference.level == ERROR]
        settings = [
            of_setting(one)
            for one in result.ranked
            if is_setting(one.difference) and one.likelihood != "unlikely"
        ]
        others = [one for one in errors if not is_setting(one.difference)]
        causes = [of_set_up(one) for one in others if one.likelihood == "cause"]
        causes += [setting for setting in settings if setting.confidence >= _LIKELY]
        return PartResult(
            "config",
            _STATUS_OF_CONFIG[result.status],
            result.sentence,
            report=files[0],
            causes=tuple(causes),
            not_compared=(*result.left_out, *map(left_out, result.problems)),
            evidence=tuple(
                f"{wording.line(one)} ({one.likelihood}): {one.reason}" for one in errors[:_MOST_EVIDENCE]
            ),
            settings=tuple(setting for setting in settings if setting.confidence < _LIKELY),
            equal_stages=tuple(equal_stages(result)),
        )

    def _checkpoint(self) -> PartResult:
        from msprobe.checkpoint.comparison import compare_checkpoints
        from msprobe.checkpoint.limits import beyond
        from msprobe.checkpoint.outputs import write_outputs

        assert self._a.checkpoint is not None
        assert self._b.checkpoint is not None
        result = compare_checkpoints(self._a.checkpoint, self._b.checkpoint)
        failing = beyond(result, [])
        files = write_outputs(self._output / "checkpoint.json", result, failing, junit=False, report=True)
        return PartResult(
            "checkpoint",
            "equal" if result.same else "differ",
            result.answer(within_limits=not failing),
            report=files[0],
            causes=tuple(of_checkpoint(result)),
            evidence=tuple(row.name for row in result.differing[:_MOST_EVIDENCE]),
        )

    def _losses(self) -> PartResult:
        a, b = read_ranks(self._a.losses), read_ranks(self._b.losses, self.offset)
        every_step = any(is_loss_file(path.name) for path in (*self._a.losses, *self._b.losses))
        missing = tuple(alone(a, b, max(self.offset, 0), every_step=every_step))
        found = compare_ranks(a, b, self._evidence())
        if found.steps == 0:
            counts = [len({step for losses in run.values() for step in losses}) for run in (a, b)]
            if every_step and not any(counts):
                # As of a training that calls torch.autograd.grad() in place of backward().
                self.notes.append("losses: neither run has one, as no backward pass of a loss was seen")
                return PartResult("losses", "absent", "neither run has a loss")
            return PartResult(
                "losses",
                "failed",
                f"no step has a loss in both ({counts[0]} and {counts[1]} steps were found)",
            )
        result = found.ranks[found.first]
        several = f" of {which_ranks(found.ranks, len(found.ranks))}" if len(found.ranks) > 1 else ""
        part = PartResult(
            "losses",
            "equal",
            f"the losses of {found.steps} steps{several} are equal",
            steps=tuple(sorted({step for one in found.ranks.values() for step in one.a.keys() & one.b})),
            curves=result,
            not_compared=missing,
        )
        if all(one.first is None for one in found.ranks.values()):
            return part
        if result.first_beyond is None:
            largest, step = result.largest
            at = f"rank {found.first}, step {step}" if several else f"step {step}"
            return replace(
                part,
                status="rounding",
                sentence=f"the losses of {found.steps} steps{several} differ by {largest:.2g} of their size "
                f"at most ({at}), which rounding explains",
            )
        where = which_ranks(found.beyond_at(result.first_beyond), len(found.ranks)) if several else ""
        rank = f"rank {found.first}, " if several else ""
        return replace(
            part,
            status="differ",
            sentence=f"the loss differs first at step {result.first_beyond} of {found.steps}"
            + (f", in {where}" if where else ""),
            first_step=result.first_beyond,
            clear_step=result.first_clear,
            evidence=tuple(
                f"{rank}step {step}: {told_apart(result.a[step], result.b[step])} (relative difference "
                f"{result.apart_at(step):.2g})"
                for step in sorted(result.a.keys() & result.b.keys())
                if step in (result.first_beyond, result.first_clear)
            ),
        )

    def _gradients(self) -> PartResult:
        from msprobe.grad_probe.comparator import compare_ranks as compare_gradients

        # Where both runs do, else each call of an optimizer counts as a step.
        calls = optimizer_calls_of(self._a.path)
        calls = calls if calls == optimizer_calls_of(self._b.path) else 1
        records = self._gradient_records()
        if all(core.is_empty_record(rank) for record in records for rank in record.glob("rank*")):
            self.notes.append("gradients: neither run recorded any, as none of sparse ones are kept")
            return PartResult("gradients", "absent", "neither run has a gradient")
        result = compare_gradients(
            *records,
            self._output / "gradients",
            pictures=False,
            show_progress=self._options.shows_progress,
            offset=self.offset * calls,
        )
        verdict = result.verdict
        explained = self._explained_steps(with_gradients=True)
        found = [
            replace(one, step=None if one.step is None else one.step // calls) for one in verdict.suspicious
        ]
        suspicious = [finding for finding in found if finding.step not in explained]
        apart = tuple(of_gradients(verdict, self.offset, calls))
        # Summands, which the dump has the sums of; copies, which the replica check looks at.
        if self.is_joined:
            apart = tuple(replace(one, is_difference=False) for one in apart)
        is_whole = self.is_joined or not verdict.not_compared
        if verdict.suspicious and not suspicious and is_whole:
            names = {finding.parameter for finding in verdict.suspicious}
            return PartResult(
                "gradients",
                "rounding",
                f"the signs of {len(names)} gradients differ, and the dumps of these steps show nothing but "
                "rounding",
                report=result.report_path,
                not_compared=apart,
            )
        first = next(iter(suspicious), None)
        missing = [*apart, *(self.dump_result.left_out if self.dump_result else ())]
        steps = sorted({step // calls for rank in verdict.ranks for step in rank.steps})
        return PartResult(
            "gradients",
            "differ" if suspicious else "equal" if result.same or self.is_joined else "incomplete",
            rounded(verdict.sentence),
            report=result.report_path,
            causes=() if first is None else (of_gradient(first, suspicious, missing),),
            first_step=None if first is None else first.step,
            clear_step=None if first is None else first.step,
            steps=tuple(steps),
            evidence=tuple(rounded(finding.line) for finding in suspicious[:_MOST_EVIDENCE]),
            not_compared=apart,
        )

    def _gradient_records(self) -> tuple[Path, Path]:
        """Of the reference and of the target; beside one of PyTorch, that of MindSpore with its names, and of
        a reference with other names of parameters, with those of the target.
        """
        assert self._a.gradients is not None
        assert self._b.gradients is not None
        folder = self._output / "gradients" / FOLDER
        if not self.is_across:
            pairs = self.dump_result.pairs if self.dump_result is not None else []
            names = next((pair.walk.other_names for pair in pairs if pair.walk.other_names), None)
            if names is None:
                return self._a.gradients, self._b.gradients
            return renamed(self._a.gradients, folder, lambda name: names.get(name, name)), self._b.gradients
        assert self._a.dump is not None
        if framework_of(self._a.dump) == "pytorch":
            return self._a.gradients, as_pytorch(self._b.gradients, self._a.gradients, folder)
        return as_pytorch(self._a.gradients, self._b.gradients, folder), self._b.gradients

    def _dump(self) -> PartResult:
        from msprobe.compare.inputs import Paths
        from msprobe.compare.outputs import write_outputs
        from msprobe.compare.run import CompareOptions, compare_runs

        reference, target = self._dumps()
        result = compare_runs(
            Paths(target=target, reference=reference, offset=self.offset),
            CompareOptions(
                output=self._output / "dump",
                table="csv" if self._options.all_tables else None,
                advice=False,
                noise=[*map(_dump_of, self._options.noise)],
                shows_progress=self._options.shows_progress,
            ),
        )
        assert result is not None  # there is one process
        self.culprits = result.culprits
        if self.culprits and not self._options.all_tables:
            result = self._with_table(result, self.culprits[0])
        self.dump_result = result
        self.noticed = list(result.verdict.notes)
        files = write_outputs(result, self.culprits)
        causes = tuple(of_culprit(culprit, self.culprits, result) for culprit in self.culprits)
        return PartResult(
            "dump",
            result.status,
            not_compared=tuple(result.left_out),
            sentence=result.answer(self.culprits),
            report=files[0],
            causes=causes,
            first_step=causes[0].step if causes else None,
            clear_step=causes[0].step if causes else None,
            steps=tuple(sorted({pair.step for pair in result.pairs})),
            evidence=tuple(self.noticed[:_MOST_EVIDENCE]) if causes else (),
        )

    def _dumps(self) -> tuple[Path, Path]:
        """Of the reference and of the target; of two frameworks, as two of one."""
        assert self._a.dump is not None
        assert self._b.dump is not None
        if self._pair is None and self.is_across:
            from msprobe.compare.inputs import Paths

            paths = Paths(target=self._b.dump, reference=self._a.dump, offset=self.offset)
            found = aligned(paths, self._output / "dump" / FOLDER, self._options.cells)
            self.notes += found.notes
            self._pair = found.reference, found.target
        return self._pair or (self._a.dump, self._b.dump)

    def _with_table(self, result: CompareResult, culprit: Culprit) -> CompareResult:
        """Writes the table of the step and rank in question, which is compared once more: those of all would
        be as large as the dumps.
        """
        from msprobe.compare.inputs import Paths
        from msprobe.compare.run import CompareOptions, compare_runs

        pair = result.pair_of(culprit.step, culprit.rank)
        assert pair is not None
        options = CompareOptions(output=result.output, table="csv", advice=False, shows_progress=False)
        alone = compare_runs(Paths(target=pair.target, reference=pair.reference), options)
        assert alone is not None
        table = alone.pairs[0].table
        pairs = [replace(one, table=table) if one is pair else one for one in result.pairs]
        return replace(result, pairs=pairs)

    # ---- what the dump says of the rest

    def _explained_steps(self, *, with_gradients: bool = False) -> frozenset[int]:
        """Steps that were compared and show nothing beyond rounding, before the first that does."""
        if self.dump_result is None or self.dump_result.status == "incomplete":
            return frozenset()
        walks = [pair.walk for pair in self.dump_result.pairs if not pair.is_debug]
        if self.dump_result.status == "differ":
            first = self.dump_result.first_step
            walks = [walk for walk in walks if first is not None and walk.step < first]
        return frozenset(walk.step for walk in walks if walk.has_state or not with_gradients)

    def _evidence(self) -> Evidence:
        units = [pair.walk.unit for pair in self.dump_result.pairs] if self.dump_result is not None else []
        roundoff = max((unit for unit in units if unit > 0), default=Evidence.roundoff)
        return Evidence(roundoff, self._explained_steps(), self._known)

    # ---- the graph at the culprit

    def graph(self, cause: Cause) -> tuple[Path, Path | None] | None:
        """A file of graphs of the step of a cause in a dump, and a page that shows it where this msprobe has
        the viewer. None: there is no hierarchy to show.
        """
        from msprobe.graph.inputs import Paths, find_units
        from msprobe.graph.run import Finding, GraphOptions, write_graph

        if self._a.dump is None or self._b.dump is None or cause.step is None or self.dump_result is None:
            return None
        reference, target = self._dumps()
        a, b = _of_step(reference, cause.step), _of_step(target, cause.step - self.offset)
        if a is None or b is None:
            return None
        try:
            # The graph counts the step of a single folder in its own way.
            step = find_units(Paths(target=b, reference=a)).units[0].step
        except Error as error:
            log.warning("no graph is made: %s", error)
            return None
        findings = [
            Finding.of(culprit, step, culprit.rank) for culprit in self.culprits if culprit.step == cause.step
        ]
        try:
            made = write_graph(
                Paths(target=b, reference=a),
                GraphOptions(
                    output=self._output / "graph",
                    ranks=self.dump_result.telling_ranks(self.culprits, cause.step),
                    shows_progress=self._options.shows_progress,
                    findings=lambda: findings,
                ),
            )
        except Error as error:
            log.warning("no graph is made: %s", error)
            return None
        return made.file, self._graph_page(made.file, step, cause.rank)

    def _graph_page(self, file: Path, step: int, rank: int | None) -> Path | None:
        if not _has("msprobe.viewer.export"):
            return None
        page = self._output / "graph.html"
        try:
            import_module("msprobe.viewer.export").export(file, page, step=step, rank=rank)
        except Error as error:
            log.warning("no page of the graph is made: %s", error)
            return None
        return page


def _dump_of(noise: Path) -> Path:
    """The dump in the folder of a repeated run; anything else is what it is."""
    dump = noise / "dump"
    return dump if not find_answers(noise) and dump.is_dir() else noise


def _has(module: str) -> bool:
    """Whether this msprobe has a part."""
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:  # its package is missing
        return False


def _of_step(dump: Path, step: int) -> Path | None:
    """A dump that is no folder of steps is one of a single step."""
    steps = numbered(dump, STEP)
    return steps.get(step) if steps else dump
