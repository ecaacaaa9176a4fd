# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Acting when the program imports torch, or another module, and not before: a script may set variables and
paths first.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from importlib.machinery import ModuleSpec
    from types import ModuleType


def when_torch_is_imported(act: Callable[[], None]) -> None:
    """Calls `act` once, when `import torch` is complete; at once where it is already. `act` must not raise.

    Nothing is imported, and a program that never imports torch sees no difference.
    """
    when_imported("torch", act)


def when_imported(module: str, act: Callable[[], None]) -> None:
    """The same for any module."""
    if module in sys.modules:
        act()
        return
    sys.meta_path.insert(0, _Finder(module, act))


class _Finder:
    """Finds nothing itself: it asks the finders behind it for the module, and takes part in its execution."""

    def __init__(self, module: str, act: Callable[[], None]) -> None:
        self._module = module
        self._act = act

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name != self._module:
            return None
        spec = None
        finders = list(sys.meta_path)
        behind = finders.index(self) + 1 if self in finders else 0
        for finder in finders[behind:]:
            if finder is not self and hasattr(finder, "find_spec"):
                spec = finder.find_spec(name, path, target)
                if spec is not None:
                    break
        loader: Any = None if spec is None else spec.loader
        if loader is not None and hasattr(loader, "exec_module"):
            execute = loader.exec_module
            of_another = getattr(loader, "__dict__", {}).get("exec_module")  # somebody who waits, too

            def execute_and_act(module: ModuleType) -> None:
                if of_another is None:
                    del loader.exec_module  # that of its class is left
                else:
                    loader.exec_module = of_another
                execute(module)
                if self in sys.meta_path:
                    sys.meta_path.remove(self)
                    self._act()

            loader.exec_module = execute_and_act
        return spec
