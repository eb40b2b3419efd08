"""The page of every verb and flag, read from the command line itself."""

from __future__ import annotations

from typing import Any

HEAD = """# Command line

Generated from the program: every verb and every flag. `fairweight VERB --help` prints the same.

Bad input is answered by one sentence on stderr and exit status 2. Add `--json` where a verb has it to get one JSON object instead of text.
"""


def page() -> str:
    """Every verb with its arguments and flags."""
    import typer

    from fairweight.cli import app

    verbs: dict[str, Any] = vars(typer.main.get_command(app))["commands"]
    listed = "\n".join(
        f"| [`{name}`](#{name}) | {_cell(verb.short_help or verb.help)} |" for name, verb in verbs.items()
    )
    return "\n".join([HEAD, "| verb | what it does |\n|---|---|", listed, "", *map(_verb, verbs, verbs.values())])


def _verb(name: str, verb: Any) -> str:
    context = verb.make_context(name, [], resilient_parsing=True)
    panels: dict[str, list[str]] = {}
    arguments: list[str] = []
    for entry in verb.get_params(context):
        record = entry.get_help_record(context)
        if record is None or "--help" in entry.opts:
            continue
        if entry.param_type_name == "argument":
            arguments.append(entry.name.upper())
        title = "Arguments" if entry.param_type_name == "argument" else getattr(entry, "rich_help_panel", None)
        panels.setdefault(title or "Options", []).append(f"| `{record[0]}` | {_cell(record[1])} |")
    text = [
        f"## {name}",
        "",
        _plain(verb.help or ""),
        "",
        f"```\nfairweight {' '.join([name, *arguments])} [OPTIONS]\n```",
        "",
    ]
    for title, rows in panels.items():
        text += [f"| {title} | |\n|---|---|", *rows, ""]
    return "\n".join(text)


def _cell(text: str | None) -> str:
    return _plain(text or "").replace("|", "\\|").replace("\n", " ")


def _plain(text: str) -> str:
    return text.replace("<", "&lt;").replace("*", "\\*")
