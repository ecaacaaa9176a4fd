# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""The port of MSAdapter: torch whose tensors are MindSpore's."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from msprobe.frameworks.mindspore import import_mindspore
from msprobe.frameworks.mindspore.mindspore_port import MindSporePort
from msprobe.hooks.api_list import listed_apis

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from msprobe.frameworks.port import Named
    from msprobe.hooks.api_list import ListedApi

# It is called while a tensor is made ready for a call, too.
_NOT_RECORDED = ("Tensor.__setitem__",)


def port_of_process() -> MindSporePort:
    """MSAdapter's where torch is MSAdapter, else MindSpore's. Raises UnsupportedError without MindSpore."""
    tensor = getattr(sys.modules.get("torch"), "Tensor", None)
    is_adapter = isinstance(tensor, type) and issubclass(tensor, import_mindspore().Tensor)
    return AdapterPort() if is_adapter else MindSporePort()


class AdapterPort(MindSporePort):
    """Modules and functions are those of torch, under PyTorch's names; all else is MindSpore's."""

    name = "mindtorch"

    def _class_of_modules(self) -> tuple[type, str]:
        module: type = sys.modules["torch"].nn.Module
        return module, "torch.nn.Module"

    def _inside(self, module: Any) -> Iterator[Named]:
        found: Iterator[Named] = module.named_modules()
        return found

    def _listed(self) -> Iterable[ListedApi]:
        return (one for one in listed_apis() if one.name not in _NOT_RECORDED)
