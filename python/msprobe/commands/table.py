# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Every command, in groups by what one wants: adding one is adding a row."""

# Command -> module, function, one line of help. The function takes the arguments and returns the exit code.
GROUPS = {
    "record and find": {
        "run": (
            "msprobe.run.command",
            "main",
            "record a training; the script stays as it is",
        ),
        "diagnose": (
            "msprobe.diagnose.command",
            "main",
            "where do two runs diverge, and why? Compares everything that both recorded",
        ),
        "view": (
            "msprobe.viewer.command",
            "main",
            "look at a graph, a dump or a run in the browser",
        ),
        "trend": (
            "msprobe.trend.command",
            "main",
            "curves and alarms of runs that were recorded with --with monitor: where do they diverge?",
        ),
        "hunt": (
            "msprobe.hunt.command",
            "main",
            "run both trainings, suspect a cause, and prove it by running without it",
        ),
        "bisect": (
            "msprobe.bisect.command",
            "main",
            "which of some changes has a check of yours pass? Modules, settings, steps",
        ),
        "explain": (
            "msprobe.compare.explain_command",
            "main",
            "why is a place of an answer suspect, or why is it not?",
        ),
    },
    "compare one thing": {
        "compare": (
            "msprobe.compare.command",
            "main",
            "two dumps: in which call does a difference begin?",
        ),
        "grad_compare": (
            "msprobe.grad_probe.command",
            "main",
            "two records of gradients: at which step and parameter do they diverge?",
        ),
        "ckpt": (
            "msprobe.checkpoint.command",
            "main",
            "two checkpoints, of any layout: which weights differ?",
        ),
        "config_check": (
            "msprobe.compat.command",
            "config_check",
            "two set-ups: environment, packages, settings, seeds, data",
        ),
        "graph": (
            "msprobe.graph.command",
            "main",
            "two models as graphs, for msprobe view; merges the ranks of a parallel job",
        ),
        "rl_compare": (
            "msprobe.rl.command",
            "main",
            "reinforcement learning: rollout and training, or two trainings",
        ),
        "diff": (
            "msprobe.diff.command",
            "main",
            "two tensors, or two files of one kind",
        ),
    },
    "one run": {
        "nan_analyze": (
            "msprobe.overflow.command",
            "main",
            "which call of which rank made the first NaN or infinity?",
        ),
        "check": (
            "msprobe.check.command",
            "main",
            "is an operator wrong? Runs every recorded call again in float64",
        ),
        "reproduce": (
            "msprobe.reproduce.command",
            "main",
            "write a script that repeats one recorded call, for a bug report",
        ),
        "perturb": (
            "msprobe.run.command",
            "perturb",
            "run a training, and find the calls in which rounding does harm",
        ),
        "repeat": (
            "msprobe.repeat.command",
            "main",
            "is a training reproducible? Runs it twice, and proves the setting that makes it so",
        ),
        "resume": (
            "msprobe.resume.command",
            "main",
            "does a training continue after a resume as if it had never stopped?",
        ),
        "show": (
            "msprobe.show.command",
            "main",
            "what is in a file: tensors, dumps, stacks, checkpoints, databases, packs",
        ),
        "grad_export": (
            "msprobe.grad_probe.export_command",
            "main",
            "its gradients in the files of mindstudio-probe, or those packed into few",
        ),
        "export": (
            "msprobe.dump.command",
            "main",
            "finish the files of a run that was killed: dump.json from its event log",
        ),
    },
    "set up": {
        "init": (
            "msprobe.config.command",
            "init",
            "write a configuration with comments; none is needed",
        ),
        "config": (
            "msprobe.config.command",
            "main",
            "msprobe config check FILE: is a configuration right, and what does it record?",
        ),
        "doctor": (
            "msprobe.doctor.command",
            "main",
            "is this installation sound? Also for bug reports",
        ),
        "completion": (
            "msprobe.completion.command",
            "main",
            "print a script by which bash or zsh complete commands and options",
        ),
    },
}

# Those of mindstudio-probe, for scripts that were written for it: `msprobe help mindstudio` has them.
MINDSTUDIO = {
    "run_ut": (
        "msprobe.compat.accuracy.command",
        "main",
        "run the calls of a dump on the device and, in higher precision, on the CPU",
    ),
    "multi_run_ut": (
        "msprobe.compat.accuracy.command",
        "multi_main",
        "run_ut by several processes",
    ),
    "api_precision_compare": (
        "msprobe.compat.accuracy.command",
        "compare_main",
        "compare the errors of a device (from run_ut) with those of a trusted one",
    ),
    "run_overflow_check": (
        "msprobe.compat.overflow_check.command",
        "main",
        "run the calls of an overflow dump again: does only this device or dtype overflow?",
    ),
    "op_generate": (
        "msprobe.compat.op_generate.command",
        "main",
        "write a script that runs one recorded call and prints its errors",
    ),
    "parse": (
        "msprobe.compat.parse.command",
        "main",
        "a prompt for arrays and kernel dumps",
    ),
    "merge_result": (
        "msprobe.compat.merge_result.command",
        "main",
        "merge the results of comparing several ranks: one sheet per index, one column per rank",
    ),
    "code_mapping": (
        "msprobe.compat.code_mapping.command",
        "main",
        "which lines of the program made the kernels of a MindSpore graph?",
    ),
    "graph_visualize": (
        "msprobe.graph.command",
        "main",
        "another name of graph",
    ),
    "overflow_check": (
        "msprobe.compat.command",
        "overflow_check",
        "another name of run_overflow_check, and with -i of nan_analyze",
    ),
    "acc_check": (
        "msprobe.compat.accuracy.command",
        "main",
        "another name of run_ut",
    ),
    "multi_acc_check": (
        "msprobe.compat.accuracy.command",
        "multi_main",
        "another name of multi_run_ut",
    ),
}

COMMANDS = {name: row for group in (*GROUPS.values(), MINDSTUDIO) for name, row in group.items()}
