# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Every command: adding one is adding a row."""

# Command -> module, function, one line of help. The function takes the arguments and returns the exit code.
COMMANDS = {
    "run": (
        "msprobe.run.command",
        "main",
        "run a training script unchanged, and record it",
    ),
    "repeat": (
        "msprobe.repeat.command",
        "main",
        "does a training repeat itself? Runs it twice, and proves what would make it repeat",
    ),
    "resume": (
        "msprobe.resume.command",
        "main",
        "does a training that is stopped and resumed go on as if it never was? What was not restored, proved",
    ),
    "hunt": (
        "msprobe.hunt.command",
        "main",
        "why do two trainings part? Runs both, suspects, and proves the cause by running without it",
    ),
    "diagnose": (
        "msprobe.diagnose.command",
        "main",
        "where do two runs part, and why? From everything that both have",
    ),
    "init": (
        "msprobe.config.command",
        "init",
        "write a configuration with comments; none is needed",
    ),
    "config": (
        "msprobe.config.command",
        "main",
        "check FILE: is a configuration right, and what does it record?",
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
    "compare": (
        "msprobe.compare.command",
        "main",
        "compare two data dumps: where does a difference come into being?",
    ),
    "explain": (
        "msprobe.compare.explain_command",
        "main",
        "why is a place suspect, or is not? The sum that the verdict of an answer made of it",
    ),
    "graph": (
        "msprobe.graph.command",
        "main",
        "the hierarchy of a model, and where two runs of it differ; merges parallel ranks",
    ),
    "graph_visualize": (
        "msprobe.graph.command",
        "main",
        "another name of graph",
    ),
    "ckpt": (
        "msprobe.checkpoint.command",
        "main",
        "compare two checkpoints of any layout: do they differ, and where?",
    ),
    "grad_compare": (
        "msprobe.grad_probe.command",
        "main",
        "compare two gradient records: at which step and parameter do the runs part?",
    ),
    "show": (
        "msprobe.show.command",
        "main",
        "show what is in a file: tensors, dumps, stacks, checkpoints, databases, packs",
    ),
    "diff": (
        "msprobe.diff.command",
        "main",
        "compare two tensors, or two files of one kind",
    ),
    "parse": (
        "msprobe.compat.parse.command",
        "main",
        "a prompt for arrays and kernel dumps, as mindstudio-probe has it",
    ),
    "rl_compare": (
        "msprobe.rl.command",
        "main",
        "compare key data of reinforcement learning: where do two runs, or rollout and training, part?",
    ),
    "merge_result": (
        "msprobe.compat.merge_result.command",
        "main",
        "merge the results of comparing several ranks: one sheet per index, one column per rank",
    ),
    "view": (
        "msprobe.viewer.command",
        "main",
        "look at graphs of models, dumps and records of the monitor in the browser",
    ),
    "trend": (
        "msprobe.trend.command",
        "main",
        "what a training did, by the record of the monitor; where do two trainings part?",
    ),
    "export": (
        "msprobe.dump.command",
        "main",
        "make dump.json, stack.json and construct.json of the event logs of a data dump",
    ),
    "config_check": (
        "msprobe.compat.command",
        "config_check",
        "were two training runs set up alike? And: compare two checkpoints",
    ),
    "nan_analyze": (
        "msprobe.overflow.command",
        "main",
        "which call of which rank made the first infinity or NaN of a step?",
    ),
    "run_overflow_check": (
        "msprobe.compat.overflow_check.command",
        "main",
        "run the calls of an overflow dump again: does only this device or dtype overflow?",
    ),
    "overflow_check": (
        "msprobe.compat.command",
        "overflow_check",
        "another name of run_overflow_check, and with -i of nan_analyze",
    ),
    "check": (
        "msprobe.check.command",
        "main",
        "is an operator wrong? Runs every call of a dump once more, against the truth",
    ),
    "reproduce": (
        "msprobe.reproduce.command",
        "main",
        "write a script that repeats one recorded call, for a bug report",
    ),
    "op_generate": (
        "msprobe.compat.op_generate.command",
        "main",
        "write a script that runs one recorded call and prints its errors, as mindstudio-probe does",
    ),
    "run_ut": (
        "msprobe.compat.accuracy.command",
        "main",
        "run the calls of a dump on the device and, raised, on the CPU: files of mindstudio-probe",
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
