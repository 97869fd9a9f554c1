"""Known agents on a shipped SWE-bench instance, where they are installed: the agent is real, the model knows the fix.

``PATH=$PATH:<folder of the agent>`` runs what is skipped otherwise. Nothing leaves the machine: agents work in the
sandbox, whose only way out is the metering proxy, and that leads to a gateway on loopback.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from pytest_elo.errors import ConfigError
from pytest_elo.strategies.programs import PRESETS
from pytest_elo.tasks.swebench.sandbox import choose_sandbox
from tests.harness import Suite
from tests.loopback import Request, Response, completion, message, model_answer, responses_reply

SHIPPED = Path(__file__).parents[2] / "evals" / "data" / "swebench"
INSTANCE = json.loads((SHIPPED / "instances.jsonl").read_text("utf-8").splitlines()[0])
FIX = f"cat > /tmp/fix.diff <<'END_OF_FIX'\n{INSTANCE['patch']}\nEND_OF_FIX\ngit apply /tmp/fix.diff"
SUBMIT = "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"
SHELLS = ("bash", "Bash", "exec_command", "shell_command", "shell", "local_shell")


def solver(request: Request) -> Response:
    """A model that runs the known fix in the agent's own shell, then says that it is done."""
    body = request.body or {}
    path = request.path.partition("?")[0]
    tools = {name: tool for tool in body.get("tools") or () if (name := _name(tool)) in SHELLS}
    if not tools:
        return model_answer(request)
    name, turns = next(iter(tools)), _tool_results(body)
    prompt, written = len(json.dumps(body)) // 4, 20 + 5 * turns
    if path.endswith("/messages"):
        block = {
            "type": "tool_use",
            "id": f"toolu_{turns}",
            "name": name,
            "input": {"command": FIX, "description": "fix"},
        }
        content = [{"type": "text", "text": "All done."}] if turns else [block]
        return message("", content=content, streamed=bool(body.get("stream")), **_counted(prompt, written))
    if path.endswith("/responses"):
        given = (
            {"cmd": FIX}
            if name == "exec_command"
            else {"command": FIX if name == "shell_command" else ["bash", "-c", FIX]}
        )
        call = {
            "type": "function_call",
            "id": "fc_1",
            "call_id": f"call_{turns}",
            "name": name,
            "arguments": json.dumps(given),
        }
        output = None if turns else [call]
        return responses_reply(
            "All done.", output=output, streamed=bool(body.get("stream")), **_counted(prompt, written)
        )
    command = SUBMIT if turns else FIX
    call = {
        "id": f"call_{turns}",
        "type": "function",
        "function": {"name": name, "arguments": json.dumps({"command": command})},
    }
    answer = completion("Next.", finish_reason="tool_calls", tool_calls=[call], **_counted(prompt, written))
    return Response(body=json.dumps(answer).encode(), billed=_bill(prompt, written))


def _name(tool):
    return tool.get("name") or (tool.get("function") or {}).get("name") or tool.get("type")


def _tool_results(body):
    text = json.dumps(body.get("messages") or body.get("input"))
    return text.count('"role": "tool"') + text.count('"function_call_output"') + text.count('"type": "tool_result"')


def _counted(prompt, written):
    return {"prompt_tokens": prompt, "completion_tokens": written}


def _bill(prompt, written):
    from tests.loopback import Billed

    return Billed(prompt, written)


@pytest.mark.parametrize("preset", sorted(PRESETS))
def test_an_agent_repairs_an_instance_and_its_bill_is_the_ledger(pytester, preset):
    if shutil.which(PRESETS[preset].argv[0]) is None:
        pytest.skip(f"{PRESETS[preset].argv[0]} is not installed")
    try:
        choose_sandbox()
    except ConfigError:
        pytest.skip("no sandbox works here")
    from tests.loopback import LoopbackGateway

    suite = Suite(pytester)
    (suite.evals / "test_sums.py").unlink()
    shutil.copytree(SHIPPED, suite.evals / "swebench")
    suite.file(
        "evals/test_swebench.py",
        """
        import pytest

        @pytest.mark.elo("swebench", data="swebench/instances.jsonl")
        def test_swebench(trial):
            trial.grade()
        """,
    )
    suite.strategies(coder={"kind": "command", "preset": preset, "seconds": 240})
    suite.set(tasks={"swebench": {"cache": str(suite.path / "cache")}})
    with LoopbackGateway(solver) as gateway:
        run = suite.live(gateway, "--elo-limit", "1", "-s")
    print(run.output)
    for row in run.charged:
        print({key: row[key] for key in ("role", "model", "http_status", "total_tokens", "error_kind", "attempt")})
    for request in gateway.requests:
        print(request.method, request.path, sorted(map(str, map(_name, (request.body or {}).get("tools") or ()))))
    assert run.exit_code == 0, run.output
    (outcome,) = run.outcomes
    assert outcome["status"] == "correct", outcome
    assert sum(row["total_tokens"] for row in run.rows) == gateway.bill.total_tokens
    assert {row["estimated"] for row in run.rows} == {None}
    assert len(run.charged) >= 2
