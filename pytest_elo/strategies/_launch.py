"""Program, run inside a cell: start a guest program with its access to the model, and let nothing of it outlive it.

``python -I _launch.py SPEC.json``. The cell has no network, so a relay on its own loopback leads to the proxy's
socket. Placeholders such as ``{problem}`` are filled in here, where addresses and paths are known. The last line
printed is ``{"ended": "exit" | "timeout" | "not_started", "exit_code": n, "reason": text}``.

Standard library only, and nothing of this package: it runs on its own behind the walls.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time

PR_SET_CHILD_SUBREAPER = 36
_POLL_S = 0.05


def relay(address: str) -> int:
    """Listen on a free port of loopback and lead every connection to the Unix socket; returns the port."""
    listener = socket.create_server(("127.0.0.1", 0), backlog=512)

    def accept() -> None:
        while True:
            client, _ = listener.accept()
            server = socket.socket(socket.AF_UNIX)
            try:
                server.connect(address)
            except OSError:
                client.close()
                continue
            for source, target in ((client, server), (server, client)):
                threading.Thread(target=copy, args=(source, target), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    return int(listener.getsockname()[1])


def copy(source: socket.socket, target: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(1 << 16):
            target.sendall(data)
    # one side is over: so is the exchange, since neither side of ours half-closes
    for end in (source, target):
        with contextlib.suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)


def filled(text: str, values: dict[str, str]) -> str:
    """``text`` with its placeholders filled, in one pass: braces in a value, or unknown ones, stay as they are."""
    return re.sub(r"\{(\w+)\}", lambda match: values.get(match[1], match[0]), text)


def descendants(root: int) -> list[int]:
    parents: dict[int, int] = {}
    for name in os.listdir("/proc"):
        with contextlib.suppress(OSError, ValueError, IndexError):
            process = int(name)
            with open(f"/proc/{name}/stat", encoding="utf-8", errors="replace") as stream:
                parents[process] = int(stream.read().rpartition(")")[2].split()[1])
    found = [root]
    for known in found:
        found += [child for child, parent in parents.items() if parent == known]
    return found[1:]


def end_all() -> None:
    """Kill every process below this one, whatever session it made for itself: orphans come back to us."""
    for _ in range(100):
        left = descendants(os.getpid())
        for process in left:
            with contextlib.suppress(OSError):
                os.kill(process, signal.SIGKILL)
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        if not left:
            return
        time.sleep(0.01)


def run(spec: dict[str, object], root: str) -> dict[str, object]:
    at = {name: f"{root}{path}" for name, path in spec["paths"].items()}  # type: ignore[attr-defined]
    with open(at["problem_file"], encoding="utf-8") as stream:
        problem = stream.read()
    origin = f"http://127.0.0.1:{relay(at['socket'])}"
    values: dict[str, str] = {**spec["values"], "origin": origin, "tree": at["tree"], "scratch": at["scratch"]}  # type: ignore[dict-item]
    access = {name: filled(text, values) for name, text in spec["access"].items()}  # type: ignore[attr-defined]
    values |= {name.lower(): text for name, text in access.items()}
    values |= {"problem": problem, "problem_file": at["problem_file"], "answer_file": at["answer_file"]}
    given = {name: filled(text, values) for name, text in spec["environment"].items()}  # type: ignore[attr-defined]
    argv = [filled(word, values) for word in spec["argv"]]  # type: ignore[attr-defined]
    with open(at["stdout"], "wb") as out, open(at["stderr"], "wb") as err:
        try:
            process = subprocess.Popen(
                argv,
                cwd=at["tree"],
                env={**os.environ, **access, **given},
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
            )
        except OSError as error:
            return {"ended": "not_started", "exit_code": 127, "reason": f"{argv[0]}: {error.strerror}"}
        deadline = time.monotonic() + float(spec["seconds"])  # type: ignore[arg-type]
        while (code := process.poll()) is None:
            if time.monotonic() > deadline or os.path.exists(at["stop"]):
                return {"ended": "timeout", "exit_code": 124, "reason": ""}
            time.sleep(_POLL_S)
        return {"ended": "exit", "exit_code": code if code >= 0 else 128 - code, "reason": ""}


def main() -> None:
    with contextlib.suppress(AttributeError, OSError):
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    root = os.environ.get("ELO_ROOT", "")
    with open(sys.argv[1], encoding="utf-8") as stream:
        spec = json.load(stream)
    ended = run(spec, root)
    end_all()
    print(json.dumps(ended))


if __name__ == "__main__":
    main()
