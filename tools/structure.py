"""Draw the imports of `service` into docs/structure.md, and fail when an arrow points up or the file is out of date."""

import sys
from collections.abc import Mapping
from pathlib import Path

import grimp

PAGE = Path("docs/structure.md")
# The rooms of the house, the highest first; a room not named here is a failure, so that each new one gets its place.
LAYERS = (
    ("main", "serving", "cli", "demo", "client", "settings", "logging"),
    ("web",),
    ("engine", "executors", "inventory", "store", "triggers", "notify", "login"),
    ("app",),
    ("domain", "resources"),
)
GUARDED = (
    "paramiko",
    "sqlalchemy",
    "alembic",
    "fastapi",
    "boto3",
    "procrastinate",
    "celpy",
    "apprise",
    "authlib",
    "joserfc",
    "yaml",
    "ruamel",
)
HEAD = """# The drawing of the imports

Written by `make structure` from the code; `make check` fails when it is out of date. An arrow means "imports"; all
point down or stay within the top row. The contracts that hold this are in `pyproject.toml` (`lint-imports`).

"""


def room_of(module: str) -> str:
    """Return the part of `service.<part>...` that stands for the module in the drawing."""
    return module.split(".")[1] if "." in module else "service"


def arrows(graph: grimp.ImportGraph) -> dict[tuple[str, str], int]:
    """Return for each pair of rooms how many modules of the first import one of the second."""
    found: dict[tuple[str, str], set[str]] = {}
    for module in graph.modules:
        for imported in graph.find_modules_directly_imported_by(module) if module.startswith("service.") else ():
            pair = (room_of(module), room_of(imported))
            if imported.startswith("service.") and pair[0] != pair[1]:
                found.setdefault(pair, set()).add(module)
    return {pair: len(modules) for pair, modules in sorted(found.items())}


def faults_of(found: Mapping[tuple[str, str], int]) -> list[str]:
    """Return one sentence for each arrow that points up or aside, and for each room that has no place."""
    height = {room: row for row, rooms in enumerate(LAYERS) for room in rooms}
    lost = sorted({room for pair in found for room in pair} - set(height))
    wrong = [
        f"service.{upper} imports service.{lower}: an arrow points up or aside"
        for upper, lower in found
        if upper in height and lower in height and height[upper] >= height[lower] and height[upper] > 0
    ]
    return [f"service.{room} has no place in tools/structure.py" for room in lost] + wrong


def page(graph: grimp.ImportGraph) -> str:
    """Return the text of docs/structure.md."""
    rooms = {room_of(module) for module in graph.modules if module.startswith("service.")}
    lines = ["```mermaid", "flowchart TD"]
    for number, row in enumerate(LAYERS):
        lines.append(f'  subgraph layer{number}[" "]')
        lines += [f"    {room}" for room in row if room in rooms]
        lines.append("  end")
    lines += [f"  {upper} --> {lower}" for upper, lower in arrows(graph)]
    lines += ["```", "", "| library | imported by |", "|---|---|"]
    for library in GUARDED:
        users = graph.find_modules_that_directly_import(library) if library in graph.modules else set()
        if users:
            lines.append(f"| {library} | {', '.join(f'`{user}`' for user in sorted(users))} |")
    return HEAD + "\n".join(lines) + "\n"


def main(arguments: list[str]) -> int:
    """Write the page, or with --check only compare; return 1 on a fault."""
    graph = grimp.build_graph("service", include_external_packages=True, cache_dir=None)
    found = faults_of(arrows(graph))
    text = page(graph)
    if "--check" not in arguments:
        PAGE.write_text(text, encoding="utf-8")
    elif not PAGE.exists() or PAGE.read_text(encoding="utf-8") != text:
        found.append("docs/structure.md is out of date; write it with: make structure")
    print("\n".join(found), file=sys.stderr, end="\n" if found else "")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
