"""The child process of the embedded model; run as a script, it needs the standard library and xllamacpp only.

Protocol: one line of JSON settings on standard input, one line of JSON (``{"address": ...}``) on standard
output once the model is loaded and listening, logs on standard error. The process ends with its parent:
when standard input closes, or when another process has become its parent.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import threading
import time
from typing import IO, Any

__all__ = ["main"]

_PARENT_WATCH_S = 0.5


def main() -> None:
    parent = os.getppid()
    settings = json.loads(sys.stdin.readline())
    answer = _keep_standard_output()
    threading.Thread(target=_end_with_input, daemon=True).start()
    server = _start(settings)
    answer.write(json.dumps({"address": server.listening_address}) + "\n")
    answer.close()
    # A process forked from the parent keeps the input open, so its end is not the only sign.
    while os.getppid() == parent:
        time.sleep(_PARENT_WATCH_S)
    os._exit(0)


def _keep_standard_output() -> IO[str]:
    """Take standard output for the answer and send whatever llama.cpp prints to the log."""
    kept = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    return kept


def _end_with_input() -> None:
    sys.stdin.read()
    # Not sys.exit: a server in the middle of an answer must not keep the process.
    os._exit(0)


def _start(settings: dict[str, Any]) -> Any:
    xllamacpp = importlib.import_module("xllamacpp")
    params = xllamacpp.CommonParams()
    params.model.path = settings["path"]
    params.model_alias = {settings["model_name"]}
    params.hostnames = ["127.0.0.1"]
    params.port = 0
    params.api_keys = [settings["api_key"]]
    params.cors_origins = ""
    params.cors_origins_explicit = True
    params.ui = False
    params.endpoint_slots = False
    params.offline = True
    params.n_gpu_layers = 0
    params.n_parallel = settings["slots"]
    params.n_ctx = settings["slots"] * settings["context_tokens"]
    # Fitting to free memory would shrink the context differently on every machine.
    params.fit_params = False
    for pool in (params.cpuparams, params.cpuparams_batch):
        pool.n_threads = settings["threads"]
        pool.poll = 0
    # A cached prefix changes the batches in which a prompt is read, hence the rounding, hence the text:
    # with the cache on, 4 of 12 answers depended on what was asked before; with it off none did.
    params.cache_prompt = False
    params.cache_idle_slots = False
    params.cache_ram_mib = 0
    return xllamacpp.Server(params)


if __name__ == "__main__":
    main()
