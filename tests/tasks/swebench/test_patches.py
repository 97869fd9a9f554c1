"""What models write becomes a patch, and what a patch may not touch is known before anything runs."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_elo.tasks.swebench.diffs import named_paths, read_changes, without_binary
from pytest_elo.tasks.swebench.patches import extract_diff, patch_key, prepare, refusal

DIFF = """\
diff --git a/src/a.py b/src/a.py
--- a/src/a.py
+++ b/src/a.py
@@ -1,3 +1,4 @@
 import x
+import y
<blank>
 def f():
@@ -10,2 +11,2 @@ def f():
-    return x
+    return y
 # end
""".replace("<blank>", " ")
NEW_FILE = """\
diff --git a/new file.py b/new file.py
new file mode 100644
--- /dev/null
+++ b/new file.py
@@ -0,0 +1 @@
+print()
"""
BINARY = "diff --git a/logo.png b/logo.png\nindex 1..2 100644\nBinary files a/logo.png and b/logo.png differ\n"


def made(diff: str, **kwargs: object) -> tuple[str, tuple[str, ...]]:
    prepared = prepare(diff, generated=True, **kwargs)  # type: ignore[arg-type]
    return prepared.text, prepared.marks


@pytest.mark.parametrize(
    "reply",
    [
        DIFF,
        f"Here is the fix:\n\n```diff\n{DIFF}```\nIt adds an import.",
        f"<patch>\n{DIFF}</patch>",
        f"<diff>\n```\n{DIFF}```\n</diff>\nDone.",
        f"~~~patch\n{DIFF}~~~",
        f"Sure.\n{DIFF}\nThis should work now.",
    ],
    ids=["bare", "fence", "patch tag", "diff tag and fence", "tildes", "prose around"],
)
def test_the_diff_in_a_reply(reply: str) -> None:
    diff = extract_diff(reply)
    assert diff is not None
    assert made(diff)[0] == DIFF


def test_blocks_of_several_files_are_joined_and_no_diff_is_none() -> None:
    reply = f"First:\n```diff\n{DIFF}```\nthen\n```diff\n{NEW_FILE}```\n"
    diff = extract_diff(reply)
    assert diff is not None
    assert [change.path for change in read_changes(diff)] == ["src/a.py", "new file.py"]
    assert extract_diff("I would change `a.py`.\n```python\nprint()\n```") is None
    assert extract_diff("") is None


def test_missing_final_newline_is_added_for_every_patch() -> None:
    prepared = prepare(DIFF.rstrip("\n"), generated=False)
    assert (prepared.text, prepared.marks) == (DIFF, ("repaired:final_newline",))


def test_wrong_hunk_counts_are_repaired_for_generated_patches_only() -> None:
    wrong = DIFF.replace("-1,3 +1,4", "-1,9 +1,2").replace("-10,2 +11,2", "-10 +11")
    assert made(wrong) == (DIFF, ("repaired:hunk_counts",))
    assert prepare(wrong, generated=False).text == wrong
    assert made(DIFF) == (DIFF, ())


def test_line_ends_follow_the_target() -> None:
    crlf = DIFF.replace("\n", "\r\n")
    text, marks = made(crlf, has_crlf=lambda path: False)
    assert (text, marks) == (DIFF, ("repaired:line_ends",))
    text, _ = made(DIFF, has_crlf=lambda path: True)
    assert "+import y\r\n" in text
    assert "+++ b/src/a.py\n@@" in text
    assert made(text, has_crlf=lambda path: True) == (text, ())


def test_binary_files_are_dropped_with_a_mark() -> None:
    assert without_binary(DIFF + BINARY + NEW_FILE) == (DIFF + NEW_FILE, ("logo.png",))
    assert prepare(DIFF + BINARY, generated=False).marks == ("binary_dropped:logo.png",)


@pytest.mark.parametrize(
    ("path", "why"),
    [
        (".git/hooks/pre-commit", "inside .git"),
        ("sub/.GIT/config", "inside .git"),
        ("/etc/passwd", "not a relative path"),
        ("../../x", "leaves the tree"),
        ("a/../../x", "leaves the tree"),
        ("link/x", "behind the symbolic link 'link'"),
        ("link", "is a symbolic link"),
    ],
)
def test_paths_that_are_refused(path: str, why: str) -> None:
    old_style = f"--- a/{path}\n+++ b/{path}\n@@ -0,0 +1 @@\n+x\n"
    git_style = f"diff --git a/{path} b/{path}\nnew file mode 100755\n{old_style}"
    renamed = f"diff --git a/ok b/{path}\nsimilarity index 100%\nrename from ok\nrename to {path}\n"
    indexed = f"Index: {path}\n{old_style}"
    for diff in (old_style, git_style, renamed, indexed, DIFF + git_style):
        assert why in refusal(diff, is_symlink=lambda name: name == "link")


def test_writing_through_a_link_made_by_the_same_patch_is_refused() -> None:
    link = "diff --git a/l b/l\nnew file mode 120000\n--- /dev/null\n+++ b/l\n@@ -0,0 +1 @@\n+/tmp\n"
    inside = "diff --git a/l/x b/l/x\nnew file mode 100644\n--- /dev/null\n+++ b/l/x\n@@ -0,0 +1 @@\n+x\n"
    assert refusal(link) == ""
    assert "symbolic link 'l'" in refusal(link + inside)


def test_honest_patches_are_not_refused() -> None:
    assert refusal(DIFF + NEW_FILE) == ""
    tricky = "--- a/docs/x.rst\n+++ b/docs/x.rst\n@@ -1,2 +1,1 @@\n--- ../../old heading\n keep\n"
    assert refusal(tricky) == ""  # the removed line only looks like a header
    assert named_paths(tricky) == ("docs/x.rst",)


def test_quoted_names_are_unquoted() -> None:
    diff = 'diff --git "a/t\\303\\244st.py" "b/t\\303\\244st.py"\nnew file mode 100644\n'
    assert named_paths(diff) == ("täst.py",)


def test_key_ignores_context_and_numbers_but_not_changes() -> None:
    moved = DIFF.replace("-1,3 +1,4", "-41,3 +41,4").replace(" import x", " import z")
    assert patch_key(moved) == patch_key(DIFF) == patch_key(f"x\n{DIFF}")
    assert patch_key(DIFF.replace("+import y", "+import z")) != patch_key(DIFF)
    assert patch_key("no diff") is None


lines = st.lists(st.sampled_from([" a", "+b", "-c", " ", "+", "+-- x", "-- y"]), min_size=1, max_size=12)


@given(st.lists(lines, min_size=1, max_size=3), st.integers(0, 40), st.integers(0, 40))
def test_recounting_is_exact_and_settles(hunks: list[list[str]], old: int, new: int) -> None:
    head = "diff --git a/f b/f\n--- a/f\n+++ b/f\n"
    body = "".join(f"@@ -1,{old} +1,{new} @@\n" + "\n".join(hunk) + "\n" for hunk in hunks)
    once = prepare(head + body, generated=True).text
    assert prepare(once, generated=True).text == once
    headers = [line for line in once.split("\n") if line.startswith("@@")]
    for header, hunk in zip(headers, hunks, strict=True):
        olds = sum(line[0] != "+" for line in hunk)
        news = sum(line[0] != "-" for line in hunk)
        assert header == f"@@ -1,{olds} +1,{news} @@"
