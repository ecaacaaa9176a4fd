# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""The layers of Python (CONTRIBUTING.md): which part of the package may import which."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from pathlib import Path

from cpp_layers import of_engines_among, words_of_engines

NATIVE = {"_core", "_torch"}

# ---- Python: parts of python/msprobe from the top down; each may use those of the layers below its own. What
# is not listed is a feature, which uses the layers below it and no other feature.
ABOVE_FEATURES = (
    {"__init__", "__main__"},
    {"api", "cli", "pytorch", "core", "mindspore"},
    {"proof"},
    {"compat"},
    {"commands"},
    {"repeat", "resume", "hunt", "bisect"},
    {"autostart", "capturing", "experiment"},
    {"port_recording", "recorders"},
    {"debugger"},
    {"training_monitor"},
    {"diagnose"},
    {"sources"},
)
# Found by name where torch is loaded already.
LOADED_WITH_TORCH = "frameworks/torch/"
FEATURES_LAYER = len(ABOVE_FEATURES)
# The floor for what is like mindstudio-probe uses everything. Only its doors use it: names that are imported,
# and commands that are not there.
DOORS_OF_COMPAT = {"__init__", "cli", "pytorch", "core", "mindspore"}
BELOW_FEATURES = (
    {"recording", "seed"},
    {"training", "replay", "transport", "frameworks", "layout"},
    {"hooks"},
    {"config"},
    {"engines", "files", "result", "tensors"},
    {"terminal"},
    {"native"},
    NATIVE,
)
LAYER_OF = {
    **{part: depth for depth, parts in enumerate(ABOVE_FEATURES) for part in parts},
    **{part: FEATURES_LAYER + 1 + depth for depth, parts in enumerate(BELOW_FEATURES) for part in parts},
}
HEAVY = {"torch", "numpy", "matplotlib", "pandas", "PIL"}

# Frameworks are imported below frameworks/. Parts that were there before it and import torch themselves; the
# list only gets shorter.
FRAMEWORKS = {"torch", "mindspore"}
IMPORTS_TORCH_STILL = {
    "experiment",
    "repeat",
    "compat",
    "config_check",
    "dump",
    "grad_probe",
    "hooks",
    "monitoring",
    "native",
    "perturb",
    "recorders",
    "recording",
    "replay",
    "reproduce",
    "seed",
    "training",
}


def python_violations(root: Path) -> Iterator[str]:
    package = root / "python/msprobe"
    of_engines = words_of_engines(root)
    for path in sorted(package.rglob("*.py")):
        here = path.relative_to(package).as_posix()
        tree = ast.parse(path.read_text(encoding="utf-8"), str(path))
        yield from of_engines_among(texts_of(tree), of_engines, f"python/msprobe/{here}")
        user = part_of(path.relative_to(package))
        for target in own_imports(tree, path.relative_to(package.parent)):
            # `from msprobe import x` of a name that is no module reads the package itself
            used = target[0] if target and is_part(package, target[0]) else "__init__"
            if problem := part_problem(user, used):
                yield f"python/msprobe/{here} imports {'.'.join(('msprobe', *target))}: {problem}"
        for framework in sorted(imported_roots(tree) & FRAMEWORKS):
            if user != "frameworks" and (framework != "torch" or user not in IMPORTS_TORCH_STILL):
                yield f"python/msprobe/{here} imports {framework}: frameworks are imported below frameworks/"
        for name in module_level_imports(tree.body):
            if name.split(".")[0] in HEAVY and not here.startswith(LOADED_WITH_TORCH):
                yield f"python/msprobe/{here} imports {name} at module level: import msprobe must be fast"


def part_of(path: Path) -> str:
    """A feature's command joins it with others: it stands where all commands do, above features."""
    parts = path.with_suffix("").parts
    is_command = len(parts) == 2 and parts[1] == "command" and parts[0] != "compat"
    return "commands" if is_command else parts[0]


def python_arrows(root: Path) -> dict[str, set[str]]:
    """Which module imports which of ours, in functions and for types, too. A package is its __init__."""
    package = root / "python/msprobe"
    modules = {module_name(path.relative_to(package.parent)): path for path in package.rglob("*.py")}
    arrows: dict[str, set[str]] = {}
    for name, path in modules.items():
        tree = ast.parse(path.read_text(encoding="utf-8"), str(path))
        imported = own_imports(tree, path.relative_to(package.parent))
        used = (module_among(modules, ".".join(("msprobe", *target))) for target in imported)
        arrows[name] = {one for one in used if one is not None} - {name}
    return arrows


def used_by_the_floor_alone(root: Path) -> list[str]:
    """Modules outside of the floor for compatibility that nothing but it and its doors needs. A command joins
    features, and stands in its own wherever it is listed.
    """
    users: dict[str, set[str]] = {}
    for user, used in python_arrows(root).items():
        for one in used:
            users.setdefault(one, set()).add(user)
    floor = tuple(f"msprobe.{part}" for part in ("compat", "pytorch", "core"))
    return sorted(
        module
        for module, of in users.items()
        if not module.startswith(floor)
        and not module.endswith(".command")
        and all(user.startswith(floor) for user in of)
    )


def module_name(path: Path) -> str:
    return ".".join(path.parent.parts if path.stem == "__init__" else path.with_suffix("").parts)


def module_among(modules: Iterable[str], name: str) -> str | None:
    """`msprobe.compare.run` of `msprobe.compare.run.compare_runs`. Native modules are none of these."""
    if name.startswith(tuple(f"msprobe.{native}" for native in NATIVE)):
        return None
    return next((name for name in (name, name.rpartition(".")[0]) if name in modules), None)


def is_part(package: Path, name: str) -> bool:
    return name in NATIVE or (package / name).is_dir() or (package / f"{name}.py").is_file()


def part_problem(user: str, used: str) -> str | None:
    above, below = LAYER_OF.get(user, FEATURES_LAYER), LAYER_OF.get(used, FEATURES_LAYER)
    if used == "compat" and user not in (*DOORS_OF_COMPAT, used):
        return "nothing uses the floor for compatibility"
    if user == used or above < below:
        return None
    if above == below == FEATURES_LAYER:
        return f"a feature does not know another one ({used})"
    return f"{used} is not below {user}"


def own_imports(tree: ast.Module, path: Path) -> Iterator[tuple[str, ...]]:
    """What the file imports of msprobe: also in functions, for types only, or by import_module("...")."""
    for node in ast.walk(tree):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            above = path.parts[: len(path.parts) - node.level] if node.level else ()
            module = ".".join((*above, *(node.module or "").split("."))).strip(".")
            # `from msprobe import cli` imports a module by its last name
            names = [f"{module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith(("import_module", "__import__")):
            names = [str(argument.value) for argument in node.args[:1] if isinstance(argument, ast.Constant)]
        yield from (tuple(name.split(".")[1:]) for name in names if name.split(".")[0] == "msprobe")


def imported_roots(tree: ast.Module) -> set[str]:
    """First names of all imports, those in functions and for types, too."""
    names: list[str] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and not node.level:
            names.append(node.module or "")
        elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith("import_module"):
            names += [str(one.value) for one in node.args[:1] if isinstance(one, ast.Constant)]
    return {name.split(".")[0] for name in names}


def texts_of(tree: ast.Module) -> set[str]:
    """All texts but those that say what something is."""
    said = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    return {
        str(node.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in said
    }


def module_level_imports(body: list[ast.stmt]) -> Iterator[str]:
    """What importing the file imports: everything outside functions and `if TYPE_CHECKING`."""
    for node in body:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module or ""
        elif isinstance(node, ast.If) and ast.unparse(node.test) in ("TYPE_CHECKING", "typing.TYPE_CHECKING"):
            yield from module_level_imports(node.orelse)
        elif not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            for field in ("body", "orelse", "finalbody", "handlers"):
                yield from module_level_imports(getattr(node, field, []))
