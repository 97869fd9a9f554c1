"""A map of the repository: paths, and the class and function lines of the most likely files."""

from __future__ import annotations

import ast
import warnings
from collections.abc import Callable, Sequence

__all__ = ["outline", "repository_map", "tokens_of"]


def tokens_of(text: str) -> int:
    """Tokens of a text, as a quarter of its characters: for budgets only, never for accounts."""
    return (len(text) + 3) // 4


def outline(text: str) -> str:
    """Class and function lines of a module with their line numbers; empty when it does not parse."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError):
        return ""
    lines: list[str] = []
    _collect(tree, 0, lines)
    return "\n".join(lines)


def repository_map(
    ranked: Sequence[str], read: Callable[[str], str | None], max_tokens: int, outlined: int = 200
) -> str:
    """All paths, then outlines of the first ranked files while the budget lasts.

    Args:
        ranked: paths, the most likely first.
        max_tokens: for the whole map; the list of paths alone may take half of it.
    """
    paths: list[str] = []
    used = 0
    for path in ranked:
        used += tokens_of(path + "\n")
        if used > max_tokens // 2:
            paths.append(f"({len(ranked) - len(paths)} more files)")
            break
        paths.append(path)
    parts = ["\n".join(paths)]
    used = tokens_of(parts[0])
    for path in ranked[:outlined]:
        text = outline(read(path) or "")
        part = f"\n### {path}\n{text}"
        if not text or used + tokens_of(part) > max_tokens:
            continue
        used += tokens_of(part)
        parts.append(part)
    return "\n".join(parts)


def _collect(node: ast.AST, depth: int, lines: list[str]) -> None:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.ClassDef):
            bases = ", ".join(ast.unparse(base) for base in child.bases)
            lines.append(f"{'  ' * depth}{child.lineno}: class {child.name}{f'({bases})' if bases else ''}")
            _collect(child, depth + 1, lines)
        elif isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            arguments = ", ".join(argument.arg for argument in [*child.args.posonlyargs, *child.args.args])
            lines.append(f"{'  ' * depth}{child.lineno}: def {child.name}({arguments})")
