# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""config.json -> frozen dataclasses. Every default and every check of a configuration is here.

The format: docs/formats/config.md. loading.py has the top level, one module per family of tasks its section.
A new task is one dataclass with a `read(section)` and one row in the table `_SECTIONS` of loading.py.
"""

from msprobe.config.dump import DataMode, DumpConfig
from msprobe.config.free_benchmark import FreeBenchmarkConfig
from msprobe.config.grad_probe import Bound, GradProbeConfig
from msprobe.config.loading import Config, load_config
from msprobe.config.monitor import AlarmConfig, MonitorConfig, RuleConfig
from msprobe.config.values import did_you_mean

__all__ = [
    "AlarmConfig",
    "Bound",
    "Config",
    "DataMode",
    "DumpConfig",
    "FreeBenchmarkConfig",
    "GradProbeConfig",
    "MonitorConfig",
    "RuleConfig",
    "did_you_mean",
    "load_config",
]
