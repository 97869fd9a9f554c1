"""What the model is told. Part of the task's fingerprint: a changed word is a changed condition."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = [
    "AGENT",
    "DIFF_FORMAT",
    "EDIT_FORMAT",
    "edit_prompt",
    "feedback_prompt",
    "localise_prompt",
    "repair_prompt",
]

_INTRODUCTION = "You repair a Python repository. An issue was reported:"

EDIT_FORMAT = """\
Answer with edit blocks. Each names a file on a line of its own, quotes lines of that file exactly as they stand, and
gives the lines that take their place. If the file shapes/square.py had a function `area` that adds where it should
multiply, the answer would be:

shapes/square.py
<<<<<<< SEARCH
    return width + height
=======
    return width * height
>>>>>>> REPLACE

Quote as few lines as make the place unique. An empty SEARCH part makes a new file. A short file you may also give
whole, with its changes, between <file path="..."> and </file> as above. Do not change tests."""

AGENT = """\
You repair a Python repository in a Linux sandbox without network. The repository is at /testbed, which is
the working directory of every command. Each of your turns must hold exactly one command in one block:

```bash
command
```

You are shown its output and exit code. Commands start in a new shell and are stopped after {command_s}
seconds. Read the code, reproduce the problem, change the source files, run the tests. Do not change existing
tests and do not leave helper files behind. When the repair is complete, send the single command

```bash
echo ELO_SUBMIT
```

and the state of the working tree is taken as your repair."""


def localise_prompt(issue: str, repository_map: str, most: int) -> str:
    return (
        f"{_INTRODUCTION}\n\n<issue>\n{issue}\n</issue>\n\n"
        "The repository's source files, with classes and functions of the likeliest:\n\n"
        f"<map>\n{repository_map}\n</map>\n\n"
        f"Which files have to be changed to resolve the issue? Name at most {most}, the likeliest first, "
        "one path a line, between <files> and </files>."
    )


def edit_prompt(issue: str, files: Sequence[tuple[str, str]], answer_format: str = EDIT_FORMAT) -> str:
    """``files`` are (path, text) pairs."""
    shown = "\n".join(f'<file path="{path}">\n{text}</file>' for path, text in files)
    return f"{_INTRODUCTION}\n\n<issue>\n{issue}\n</issue>\n\n{shown}\n\nResolve the issue. {answer_format}"


def repair_prompt(problems: Sequence[str], files: Sequence[tuple[str, str]]) -> str:
    """``files`` are the real texts of those named in the problems, as (path, text) pairs."""
    if not problems:
        told = "Your answer changes nothing: it holds no edit block, no whole file that differs, and no diff."
    else:
        told = "Some of your edit blocks could not be applied:\n" + "\n".join(f"- {line}" for line in problems)
    shown = "".join(f'\n<file path="{path}">\n{text}</file>\n' for path, text in files)
    return f"{told}\n{shown}\nSend all edit blocks again, corrected. {EDIT_FORMAT}"


def feedback_prompt(feedback: str) -> str:
    return (
        f"A check of your repair says:\n\n{feedback}\n\n"
        f"Reconsider it. Send the complete repair again, against the original files. {EDIT_FORMAT}"
    )


DIFF_FORMAT = "Answer with one unified diff against the files shown, in one ```diff block. Do not change tests."
