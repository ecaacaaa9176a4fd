# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""seed_all: makes a training run repeatable, so that two runs can be compared."""

from __future__ import annotations

import contextlib
import os
import random
from typing import TYPE_CHECKING, Any

from msprobe.native import InvalidArgument, import_torch, log

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import ModuleType

    from torch import Tensor

    _Dropout = Callable[..., Tensor]

_LARGEST_SEED = 2**32 - 1  # what NumPy takes
_DROPOUTS = ("dropout", "dropout1d", "dropout2d", "dropout3d", "alpha_dropout", "feature_alpha_dropout")
# On a function of ours: the function of torch in whose place it stands.
_ORIGINAL = "_msprobe_original"


def seed_all(
    seed: int = 1234, mode: bool = False, rm_dropout: bool = True, is_enhanced: bool = False
) -> None:
    """Seeds every random generator of this process, and switches off what makes runs differ. Call it at the
    beginning of the script, before the model is built and before the first work on a device.

    seed: 0 to 2^32-1, for `random`, NumPy (where it is installed) and torch on every device. Processes
        started from here on get it as PYTHONHASHSEED; the hashes of this process are as they are.
    mode: whether torch must use deterministic algorithms (`torch.use_deterministic_algorithms`). Slower, and
        operators that have none raise an error.
    rm_dropout: whether dropout does nothing from now on (p = 0): `torch.nn.functional.dropout` and its
        relatives are replaced, and so `torch.nn.Dropout` and its relatives do nothing, too. It stays so when
        seed_all is called again with False; restore_dropout() undoes it. Not reached are functions taken from
        torch.nn.functional and code compiled by torch.jit before, the `dropout_p` of
        scaled_dot_product_attention (which nn.MultiheadAttention uses), and the `dropout` of nn.LSTM, nn.GRU
        and nn.RNN.
    is_enhanced: a keyword of mindstudio-probe, without effect here, which a warning says.

    cuDNN is told to be deterministic in any case, and not to choose algorithms by trying them out.

    Raises InvalidArgument for an argument of another type or a seed out of range; nothing is changed then.
    """
    if isinstance(seed, bool) or not isinstance(seed, int) or not 0 <= seed <= _LARGEST_SEED:
        raise InvalidArgument(
            f'seed_all(): "seed": expected an integer from 0 to {_LARGEST_SEED}, found {seed!r}'
        )
    for name, value in (
        ("mode", mode),
        ("rm_dropout", rm_dropout),
        ("is_enhanced", is_enhanced),
    ):
        if not isinstance(value, bool):
            raise InvalidArgument(f'seed_all(): "{name}": expected True or False, found {value!r}')

    if is_enhanced:
        log.warning("seed_all: is_enhanced has no effect: everything is seeded without it")

    torch = import_torch()
    os.environ["PYTHONHASHSEED"] = str(seed)
    random.seed(seed)
    with contextlib.suppress(ModuleNotFoundError):
        import numpy

        numpy.random.seed(seed)
    torch.manual_seed(seed)  # of all devices
    _be_deterministic(torch, mode)
    if rm_dropout:
        _remove_dropout()


def restore_dropout() -> None:
    """Puts the dropout functions of torch back in their places. Without seed_all(rm_dropout=True) before,
    nothing happens.
    """
    for functional, name, current in _dropouts():
        original = vars(current).get(_ORIGINAL)
        if original is not None:
            setattr(functional, name, original)


def _be_deterministic(torch: ModuleType, mode: bool) -> None:
    os.environ["HCCL_DETERMINISTIC"] = str(mode)
    cuda = torch.version.cuda
    if cuda is not None and tuple(map(int, cuda.split(".")[:2])) >= (10, 2):
        os.environ["CUBLAS_WORKSPACE_CONFIG"] = ":4096:8"
    torch.use_deterministic_algorithms(mode)
    torch.backends.cudnn.deterministic = True
    torch.backends.cudnn.benchmark = False


def _dropouts() -> Iterator[tuple[ModuleType, str, _Dropout]]:
    functional: Any = import_torch().nn.functional
    for name in _DROPOUTS:
        current = getattr(functional, name, None)  # dropout1d is younger than the others
        if current is not None:
            yield functional, name, current


def _remove_dropout() -> None:
    for functional, name, current in _dropouts():
        if _ORIGINAL not in vars(current):
            setattr(functional, name, _without_effect(current))


def _without_effect(original: _Dropout) -> _Dropout:
    """`original` with p = 0, under the same name and signature. It is called all the same, so that a dump of
    the run has the record.
    """
    # Both are written out, and __wrapped__ is not set, because torch.jit.script compiles the source.
    if original.__name__ in ("alpha_dropout", "feature_alpha_dropout"):

        def replacement(
            input: Tensor, p: float = 0.5, training: bool = False, inplace: bool = False
        ) -> Tensor:
            return original(input, 0.0, training, inplace)
    else:

        def replacement(
            input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False
        ) -> Tensor:
            return original(input, 0.0, training, inplace)

    for attribute in ("__name__", "__qualname__", "__module__", "__doc__"):
        setattr(replacement, attribute, getattr(original, attribute))
    setattr(replacement, _ORIGINAL, original)
    return replacement
