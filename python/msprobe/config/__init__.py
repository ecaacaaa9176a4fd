# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""config.json and config.yaml as frozen dataclasses. Reading, checks, defaults and the table of keys are
native: cpp/src/config/tables.cpp. The format: docs/formats/config.md.

A key that is added there is in `section` at once; for static types it is also a field of the class here.
"""

from msprobe.config.loading import (
    Config,
    DumpConfig,
    FreeBenchmarkConfig,
    GradProbeConfig,
    check_keys,
    did_you_mean,
    keys_of,
    load_config,
    load_own_config,
    load_section,
    read_file,
    words_of,
)
from msprobe.config.monitor import AlarmConfig, MonitorConfig, RuleConfig

__all__ = [
    "AlarmConfig",
    "Config",
    "DumpConfig",
    "FreeBenchmarkConfig",
    "GradProbeConfig",
    "MonitorConfig",
    "RuleConfig",
    "check_keys",
    "did_you_mean",
    "keys_of",
    "load_config",
    "load_own_config",
    "load_section",
    "read_file",
    "words_of",
]
