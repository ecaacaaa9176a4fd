# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Every import path and command line in the documentation of releases 8.1.1 and 26.2 of mindstudio-probe."""

from __future__ import annotations

from dataclasses import dataclass

BOTH, OLD, NEW = "8.1.1, 26.2", "8.1.1", "26.2"


@dataclass(frozen=True)
class Entry:
    """`text`: a Python statement, or a command line whose files lie in the prepared folder."""

    text: str
    releases: str = BOTH

    @property
    def is_command(self) -> bool:
        return self.text.startswith(("msprobe ", "python "))


IMPORTS = [
    Entry("from msprobe import *", OLD),
    Entry("from msprobe import GradComparator", OLD),
    Entry("from msprobe.core import SingleSave, SingleComparator"),
    Entry("from msprobe.core.config_check import ConfigChecker"),
    Entry("from msprobe.core.grad_probe.grad_compare import GradComparator", OLD),
    Entry("from msprobe.core.monitor_v2.trainer import TrainerMonitorV2", NEW),
    Entry("from msprobe.core.single_save.single_comparator import SingleComparator"),
    Entry("from msprobe.core.single_save.single_saver import SingleSave"),
    Entry("from msprobe.mindspore import PrecisionDebugger, seed_all"),
    Entry("from msprobe.mindspore import MsprobeStep, MsprobeInitStep"),
    Entry("from msprobe.mindspore import TrainerMon"),
    Entry("from msprobe.mindspore import save, save_grad"),
    Entry("from msprobe.mindspore import step", NEW),
    Entry("from msprobe.mindspore.common.utils import MsprobeStep"),
    Entry("from msprobe.nan_analyze.analyzer import NanAnalyzer", OLD),
    Entry("from msprobe.pytorch import *"),
    Entry("from msprobe.pytorch import PrecisionDebugger, seed_all"),
    Entry("from msprobe.pytorch import PrecisionDebugger, module_dump, module_dump_end"),
    Entry("from msprobe.pytorch import compare, compare_distributed", OLD),
    Entry("from msprobe.pytorch import TrainerMon"),
    Entry("from msprobe.pytorch import random_save", NEW),
    Entry("from msprobe.pytorch import set_fx_dump_config, set_ge_dump_config", NEW),
    Entry("from msprobe.pytorch import acl_save, AclGraphDumper", NEW),
    Entry("from msprobe.pytorch.common import seed_all"),
    Entry("from msprobe.pytorch.common.utils import seed_all"),
    Entry("from msprobe.pytorch.debugger.precision_debugger import PrecisionDebugger", OLD),
    Entry("from msprobe.pytorch.dump.debugger.precision_debugger import PrecisionDebugger", NEW),
    Entry("from msprobe.pytorch.free_benchmark import FreeBenchmarkCheck", OLD),
    Entry("from msprobe.pytorch.monitor.csv2tb import csv2tensorboard_by_step"),
    Entry("from msprobe.pytorch.monitor.module_hook import TrainerMon"),
    Entry("from msprobe.pytorch.nan_check import npu_over_flow", NEW),
    Entry("from msprobe.pytorch.online_dispatch import PtdbgDispatch", OLD),
    Entry("from msprobe.pytorch.xor_checksum import xor_checksum", NEW),
    Entry("from msprobe.response_anomaly import analyze_output_anomaly", NEW),
]

COMMANDS = [
    Entry("msprobe -f pytorch compare -i compare.json -o output", OLD),
    Entry("msprobe -f pytorch compare -i compare.json -o output -s", OLD),
    Entry("msprobe -f pytorch compare -i compare.json -o output -s -dm data_mapping.yaml", OLD),
    Entry("msprobe -f pytorch compare -i compare.json -o output -c -f", OLD),
    Entry("msprobe compare -tp target_dump -gp golden_dump -o output", NEW),
    Entry("msprobe compare -m auto -tp target_dump -gp golden_dump -o output -fm -da --xlsx", NEW),
    Entry("msprobe compare -tp target_dump -gp golden_dump -o output -dm data_mapping.yaml", NEW),
    Entry("msprobe compare -tp target_run -gp golden_run -o output --rank 0 --step 0", NEW),
    Entry("msprobe compare -tp target_dump -gp golden_dump -o output -tensor_log", NEW),
    Entry("msprobe compare -m offline_data -tp target_dump -gp golden_dump -o output", NEW),
    Entry("msprobe compare -m torchair -tp target_dump -gp golden_dump -o output", NEW),
    Entry("msprobe compare -m offline_model -tp model.om -gp model.onnx -o output", NEW),
    Entry("msprobe compare -m atb -tp target_dump -gp golden_dump -o output", NEW),
    Entry("msprobe -f pytorch merge_result -i results -o output -config merge.yaml", OLD),
    Entry("msprobe merge_result -i results -o output -config merge.yaml", NEW),
    Entry("msprobe -f pytorch graph -i compare.json -o output", OLD),
    Entry("msprobe -f pytorch graph -i compare.json -o output -lm layers.yaml -oc -f", OLD),
    Entry("msprobe graph_visualize -tp target_dump -gp golden_dump -o output", NEW),
    Entry("msprobe graph_visualize -tp target_dump -o output", NEW),
    Entry("msprobe graph_visualize -tp target_dump -gp golden_dump -o output -tensor_log -progress_log", NEW),
    Entry("msprobe graph_visualize -tp target_dump -gp golden_dump -o output -lm layers.yaml -oc -fm", NEW),
    Entry("msprobe -f pytorch config_check -d train.sh train.yaml -o pack.zip", OLD),
    Entry("msprobe config_check -d train.sh train.yaml -o pack.zip", NEW),
    Entry("msprobe -f pytorch config_check -c bench.zip cmp.zip -o output", OLD),
    Entry("msprobe config_check -c bench.zip cmp.zip -o output", NEW),
    Entry("msprobe --framework pytorch config_check --compare ckpt_a ckpt_b -o similarity.json", OLD),
    Entry("msprobe config_check --compare ckpt_a ckpt_b -o similarity.json", NEW),
    Entry("msprobe -f pytorch nan_analyze -i nan_dump/step0 -o output", OLD),
    Entry("msprobe overflow_check -i nan_dump/step0 -o output", NEW),
    Entry("msprobe -f pytorch run_overflow_check -api_info overflow.json", OLD),
    Entry("msprobe -f pytorch parse", OLD),
    Entry("msprobe parse -d kernel_dump -t npy -o output", NEW),
    Entry("msprobe -f pytorch run_ut -api_info dump.json", OLD),
    Entry("msprobe -f pytorch run_ut -api_info dump.json -save_error_data", OLD),
    Entry("msprobe -f pytorch run_ut -config config.json", OLD),
    Entry("msprobe -f pytorch multi_run_ut -api_info dump.json -n 32 -d 0 1 2 3", OLD),
    Entry("msprobe acc_check -api_info dump.json", NEW),
    Entry("msprobe multi_acc_check -api_info dump.json -n 32 -d 0 1 2 3", NEW),
    Entry("msprobe -f pytorch api_precision_compare -npu npu.csv -gpu gpu.csv -o output", OLD),
    Entry("msprobe api_precision_compare -npu npu.csv -gpu gpu.csv -o output", NEW),
    Entry("msprobe -f pytorch op_generate -i config_op.json -o ./", OLD),
    Entry("python -m msprobe.pytorch.monitor.anomaly_analyse -d monitor", OLD),
    Entry("msprobe data2db --db output --data target_dump", NEW),
    Entry("msprobe offline_dump -h", NEW),
    Entry("msprobe install_deps -m offline", NEW),
    Entry("msprobe -V", NEW),
    Entry("msprobe -f mindspore compare -i ms_compare.json -o output", OLD),
    Entry("msprobe -f mindspore compare -i ms_compare.json -o output -s -cm", OLD),
    Entry("msprobe -f mindspore compare -i ms_compare.json -o output -s -cm cells.yaml", OLD),
    Entry("msprobe -f mindspore compare -i ms_compare.json -o output -s -am", OLD),
    Entry("msprobe -f mindspore compare -i ms_compare.json -o output -s -am apis.yaml", OLD),
    Entry("msprobe -f mindspore compare -i ms_compare.json -o output -s -dm ms_data_mapping.yaml", OLD),
    Entry("msprobe -f mindspore compare -i ms_compare.json -o output -s -lm layers.yaml", OLD),
    Entry("msprobe -f mindspore graph -i ms_graph.json -o output", OLD),
    Entry("msprobe -f mindspore graph -i ms_graph.json -o output -lm layers.yaml", OLD),
    Entry("msprobe -f mindspore merge_result -i results -o output -config merge.yaml", OLD),
    Entry("msprobe -f mindspore config_check -c bench.zip cmp.zip -o output", OLD),
    Entry("msprobe -f mindspore run_ut -api_info dump.json -o output", OLD),
    Entry("msprobe -f mindspore multi_run_ut -api_info dump.json -d 0 1 2 3", OLD),
    Entry("msprobe -f mindspore op_generate -i config_op.json -o ./", OLD),
    Entry("msprobe -f mindspore code_mapping --ir graph.ir --dump_data ms_data", OLD),
]
