"""The README's list of modules: `python -m tests.file_map` rewrites it from the first line of every module's docstring."""

import ast
from pathlib import Path

ROOT = Path(__file__).parents[1]
README = ROOT / "README.md"
PACKAGES = ("search_spaces", "accountants", "engine", "launch", "benchmarks", "examples")
START, END = "<!-- file map -->\n", "<!-- end of file map -->\n"


def file_map() -> str:
    """One Markdown line per module of the packages, packages before their modules."""
    paths = [path for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py"), key=_package_first)]
    return "".join(f"* `{_shown(path)}`: {_first_line(path)}\n" for path in paths)


def _package_first(path: Path) -> tuple:
    return tuple((part != "__init__.py", part) for part in path.parts)


def _shown(path: Path) -> str:
    relative = path.relative_to(ROOT)
    return f"{relative.parent}/" if path.name == "__init__.py" else str(relative)


def _first_line(path: Path) -> str:
    docstring = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))
    if not docstring:
        raise ValueError(f"Expected {path.relative_to(ROOT)} to start with a docstring.")
    return docstring.splitlines()[0].rstrip(".:")


def written_map() -> str:
    """What the README holds now."""
    return README.read_text(encoding="utf-8").split(START)[1].split(END)[0]


def main() -> None:
    """Rewrites the README's list."""
    text = README.read_text(encoding="utf-8")
    README.write_text(text.replace(START + written_map() + END, START + file_map() + END), encoding="utf-8")


if __name__ == "__main__":
    main()
