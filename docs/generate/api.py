"""The page of the public names, grouped by the room that each lives in; mkdocstrings adds signatures and docstrings."""

from __future__ import annotations

ROOMS = {
    "types": "Plain values",
    "methods": "Methods: who counts",
    "objectives": "Objectives: what counts",
    "metrics": "Tables by group",
    "training": "Training",
    "sampling": "Drawing batches",
    "models": "Networks",
    "integrations": "Inside other frameworks",
}
MORE = {
    "Criteria: what is fair": ("metrics.criterion.Criterion", "metrics.criterion.criterion"),
    "Reading data": (
        "data.load", "data.Dataset", "data.Options", "data.LabelOptions", "data.GroupOptions", "data.TableOptions",
        "data.ImageOptions", "data.Split", "data.Exemplar",
    ),
    "Comparing two models": ("metrics.compare", "metrics.noise_floor", "metrics.Intervals"),
    "The score gradient": ("metagradient.score_gradient",),
    "What a method must have": ("methods.Reweighter", "objectives.Objective"),
}  # fmt: skip
HEAD = """# API

Generated from the docstrings. Examples run as doctests in the tests. Import the package once, `import fairweight as fw`; every name below without a dot is `fw.NAME`. Names load when they are first used, so the import itself takes next to no time.
"""
INHERITED = (
    "Every method also has what [`Reweighter`](#fairweight.methods.Reweighter) has: `step`, `weights`, `state_dict`, "
    "`load_state_dict`, `begin`, `on_epoch`, `sampling_weights`, `accumulating`."
)


def page() -> str:
    """Every public name once."""
    import fairweight as fw

    homes: dict[str, str] = fw._HOME
    special = {path.rpartition(".")[2] for path in MORE["What a method must have"]}
    parts = [HEAD]
    for room, title in ROOMS.items():
        names = [name for name in sorted(homes) if homes[name].split(".")[0] == room and name not in special]
        parts += [
            f"## {title}",
            *([INHERITED] if room == "methods" else []),
            *(f"::: fairweight.{_home(f'{homes[name]}.{name}')}" for name in names),
        ]
    for title, paths in MORE.items():
        parts += [
            f"## {title}",
            *(f"::: fairweight.{_home(path)}" for path in paths),
        ]
    return "\n\n".join(parts) + "\n"


def _home(path: str) -> str:
    """Where the name is defined: griffe reads files and does not follow what a package only passes on."""
    import importlib
    import inspect

    room, _, name = path.rpartition(".")
    value = getattr(importlib.import_module(f"fairweight.{room}"), name)
    found = inspect.getmodule(inspect.unwrap(value))
    return f"{(found.__name__ if found else room).removeprefix('fairweight.')}.{name}"
