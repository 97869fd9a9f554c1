"""The program that applies a patch and runs the tests, as text: the same in a sandbox and in a container.

Everything printed before the ``start`` line comes from git and this program; no code of the tree under test
has run by then. Everything after it is the test command's output, and the program's exit code is the test
command's own, since the shell becomes it. The line's prefix is a fresh random word, and only its first
occurrence counts, so output cannot pass for a stage.
"""

from __future__ import annotations

import io
import secrets
import tarfile
from collections.abc import Sequence
from dataclasses import dataclass

from pytest_elo.tasks.swebench.patches import CONFIGURATION_NAMES, PROTECTED_NAMES
from pytest_elo.tasks.swebench.sandbox.cell import Limits

__all__ = ["BOOTSTRAP", "Plan", "Stages", "new_word", "read_stages"]

BOOTSTRAP = 'c="${ELO_ROOT-}/tmp/.elo"; mkdir -p "$c" && tar -C "$c" -xf - && exec bash "$c/run.sh" </dev/null'
"""Shell text that unpacks a plan from stdin and runs it; in a sandbox nothing is written on the host.

``ELO_ROOT`` is set only where there is no sandbox, so that runs do not share ``/tmp`` and ``/testbed``.
"""

_STAGE_FAILED = 97


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """One run: what to apply, what to reset, what to execute.

    ``test_patch`` is ``None`` for a public check: the tree keeps its own tests.
    """

    word: str
    prelude: str
    patch: str
    test_command: str
    limits: Limits
    base_commit: str
    test_files: Sequence[str] = ()
    test_patch: str | None = None
    import_names: Sequence[str] = ()
    reinstall: str = ""
    after_reinstall: str = ""

    def archive(self) -> bytes:
        """The plan as the tar archive that ``BOOTSTRAP`` reads."""
        files = {
            "run.sh": self.script(),
            "model.patch": self.patch,
            "test.patch": self.test_patch or "",
            "test.sh": self.test_command,
            "test_files": "".join(f"{path}\0" for path in self.test_files),
            "import_names": "".join(f"{name}\n" for name in self.import_names),
        }
        buffer = io.BytesIO()
        with tarfile.open(fileobj=buffer, mode="w") as archive:
            for name, text in files.items():
                data = text.encode("utf-8", "surrogateescape")
                entry = tarfile.TarInfo(name)
                entry.size = len(data)
                archive.addfile(entry, io.BytesIO(data))
        return buffer.getvalue()

    def script(self) -> str:
        """The shell program itself."""
        helpers = _HELPERS.replace("@WORD@", self.word).replace("@BASE@", self.base_commit)
        stages = [helpers.replace("@SECONDS@", f"{self.limits.apply_s:g}"), self.prelude]
        if self.patch.strip():
            stages += [_APPLY, _PROTECT.replace("@NAMES@", "|".join(PROTECTED_NAMES))]
        if self.test_patch is not None:
            stages.append(_TESTS)
        if self.reinstall:
            stages.append(f"( {self.reinstall} ) >$control/install 2>&1 || fail install")
            stages.append(self.after_reinstall)
        stages.append(_RUN.replace("@LIMITS@", self.limits.shell()))
        return "\n".join(stages)


@dataclass(frozen=True, slots=True, kw_only=True)
class Stages:
    """A run's output, split. ``failed`` names the stage that failed before any test ran."""

    setup: str
    output: str
    started: bool
    failed: str | None
    marks: tuple[str, ...]


def new_word() -> str:
    return secrets.token_hex(16)


def read_stages(text: str, word: str) -> Stages:
    """Split a run's output at the first ``start`` line; marks are what the program reported before it."""
    setup, separator, output = text.partition(f"{word} start\n")
    reports = [line[len(word) + 1 :] for line in setup.split("\n") if line.startswith(f"{word} ")]
    failed = next((report.split(" ", 1)[1] for report in reports if report.startswith("fail ")), None)
    marks = tuple(report.split(" ", 1)[1] for report in reports if report.startswith("mark "))
    shown = "\n".join(line for line in setup.split("\n") if not line.startswith(f"{word} "))
    return Stages(setup=shown, output=output, started=bool(separator), failed=failed, marks=marks)


_HELPERS = f"""set -u
word=@WORD@ base=@BASE@ clock='timeout --kill-after=2 @SECONDS@' root=${{ELO_ROOT-}} control=${{ELO_ROOT-}}/tmp/.elo
export GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_NOSYSTEM=1 GIT_CEILING_DIRECTORIES=$root/
git() {{ $clock env git -c core.hooksPath=/dev/null -c safe.directory='*' -c core.fileMode=false "$@"; }}
tell() {{ printf '%s %s\\n' "$word" "$*"; }}
fail() {{ tell fail "$1"; exit {_STAGE_FAILED}; }}
"""

# The official chain of swebench 5.0.2; -u keeps patch(1) from reading its other formats (ed scripts!).
_APPLY = """
pristine() { git checkout -q -- . ; git clean -qfd; }
applied=
for attempt in 'git apply --verbose' 'git apply --verbose --3way' 'git apply --verbose --reject' \
    "$clock patch -u --batch --forward --fuzz=5 --no-backup-if-mismatch -p1 -i"; do
  echo "+ $attempt"
  if $attempt $control/model.patch 2>&1; then applied=$attempt; break; fi
  pristine
done
if [ -z "$applied" ]; then
  git apply --check --reverse $control/model.patch 2>/dev/null || {
    command -v patch >/dev/null || fail patch_program
    fail patch
  }
fi
case "$applied" in *patch*-u*) tell mark applied:fuzzy;; *3way) tell mark applied:3way;; esac
"""

_PROTECT = f"""
restore() {{
  rm -rf -- "./$1"
  if git cat-file -e "HEAD:$1" 2>/dev/null; then git checkout -q HEAD -- "$1"; fi
  tell mark "protected:$1"
}}
about_pytest() {{ awk '/^\\[/ {{ inside = /pytest|pytest11/ }} inside || /pytest/'; }}
git diff --name-only -z HEAD > $control/changed
git ls-files --others -z >> $control/changed
while IFS= read -r -d '' path; do
  case "${{path##*/}}" in
    @NAMES@) grep -qxF "/$path" .git/info/exclude 2>/dev/null || restore "$path";;
    {"|".join(CONFIGURATION_NAMES)})
      old=$(git show "HEAD:$path" 2>/dev/null | about_pytest)
      new=$( (cat -- "$path" 2>/dev/null || true) | about_pytest)
      [ "$old" = "$new" ] || restore "$path";;
  esac
done < $control/changed
git ls-tree --name-only -z HEAD ./ ./src/ > $control/known 2>/dev/null
for entry in ./* ./src/*; do
  [ -e "$entry" ] || continue
  name=${{entry##*/}}
  tr '\\0' '\\n' < $control/known | grep -qxF -- "${{entry#./}}" && continue
  grep -qxF -- "/${{entry#./}}" .git/info/exclude 2>/dev/null && continue
  if grep -qxF -- "${{name%%.*}}" $control/import_names; then restore "${{entry#./}}"; fi
done
"""

_TESTS = """
while IFS= read -r -d '' path; do
  folder=$(dirname -- "$path")
  while [ "$folder" != . ]; do
    if [ -L "$folder" ] || { [ -e "$folder" ] && [ ! -d "$folder" ]; }; then rm -rf -- "$folder"; fi
    folder=$(dirname -- "$folder")
  done
  rm -rf -- "./$path"
  if git cat-file -e "$base:$path" 2>/dev/null; then git checkout -q "$base" -- "$path" || fail reset; fi
done < $control/test_files
git apply -v $control/test.patch 2>&1 || fail test_patch
"""

_RUN = """
command=$(cat $control/test.sh)
rm -rf $control
tell start
unset GIT_CONFIG_GLOBAL GIT_CONFIG_NOSYSTEM GIT_CEILING_DIRECTORIES ELO_ROOT
@LIMITS@
exec bash -c "$command" 2>&1
"""
