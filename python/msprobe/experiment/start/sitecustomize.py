# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Python imports this at its start where its folder stands in PYTHONPATH: in every process of an experiment,
whatever starts it (torchrun, a shell, a launcher). The sitecustomize of the machine has its turn, too.
"""

import importlib.machinery
import importlib.util
import os
import sys

_HERE = os.path.dirname(os.path.abspath(__file__))


def _go_on() -> None:
    """The one that would have been imported without this."""
    places = [path for path in sys.path if os.path.abspath(path) != _HERE]
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", places)
    if spec is not None and spec.loader is not None:
        spec.loader.exec_module(importlib.util.module_from_spec(spec))
    sys.path[:] = places


_go_on()
if os.environ.get("MSPROBE_EXPERIMENT"):
    try:
        from msprobe.experiment.inside import begin
    except ImportError as error:
        print(f"msprobe: {sys.executable} has no msprobe: {error}", file=sys.stderr)
    else:
        begin()
