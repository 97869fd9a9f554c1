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
from tests.loopback import LoopbackGateway, Request, Response, message, model_answer, reply, responses_reply

SHIPPED = Path(__file__).parents[2] / "evals" / "data" / "swebench"
INSTANCE = json.loads((SHIPPED / "instances.jsonl").read_text("utf-8").splitlines()[0])
FIX = f"cat > /tmp/fix.diff <<'END_OF_FIX'\n{INSTANCE['patch']}\nEND_OF_FIX\ngit apply /tmp/fix.diff"
SUBMIT = "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"
SHELLS = ("bash", "Bash", "exec_command", "shell_command", "shell", "local_shell")


def solver(request: Request) -> Response:
    """A model that runs the known fix in the agent's own shell, then says that it is done."""
    body = request.body or {}
    path = request.path.partition("?")[0]
    shell = next((name for tool in body.get("tools") or () if (name := _name(tool)) in SHELLS), None)
    if shell is None:
        return model_answer(request)
    turns = _tool_results(body)
    counted = {"prompt_tokens": len(json.dumps(body)) // 4, "completion_tokens": 20 + 5 * turns}
    told = {"streamed": bool(body.get("stream")), **counted}
    if path.endswith("/messages"):
        asked = {"command": FIX, "description": "apply the fix"}
        block = {"type": "tool_use", "id": f"toolu_{turns}", "name": shell, "input": asked}
        return message("", content=[{"type": "text", "text": "All done."}] if turns else [block], **told)
    if path.endswith("/responses"):
        arguments = {"exec_command": {"cmd": FIX}, "shell_command": {"command": FIX}}
        given = json.dumps(arguments.get(shell, {"command": ["bash", "-c", FIX]}))
        call = {"type": "function_call", "id": "fc_1", "call_id": f"call_{turns}", "name": shell, "arguments": given}
        return responses_reply("All done.", output=None if turns else [call], **told)
    function = {"name": shell, "arguments": json.dumps({"command": SUBMIT if turns else FIX})}
    calls = [{"id": f"call_{turns}", "type": "function", "function": function}]
    return reply("Next.", finish_reason="tool_calls", tool_calls=calls, **counted)


def _name(tool):
    return tool.get("name") or (tool.get("function") or {}).get("name") or tool.get("type")


def _tool_results(body):
    text = json.dumps(body.get("messages") or body.get("input"))
    return text.count('"role": "tool"') + text.count('"function_call_output"') + text.count('"type": "tool_result"')


AGENTS = pytest.mark.parametrize("preset", sorted(PRESETS))


@AGENTS
def test_an_agent_repairs_an_instance_and_its_bill_is_the_ledger(pytester, preset):
    suite = suite_for(pytester, preset)
    with LoopbackGateway(solver) as gateway:
        run = suite.live(gateway, "--elo-limit", "1")
    assert run.exit_code == 0, run.output
    (outcome,) = run.outcomes
    assert outcome["status"] == "correct", outcome
    assert sum(row["total_tokens"] for row in run.rows) == gateway.bill.total_tokens
    assert {row["estimated"] for row in run.rows} == {None}
    assert len(run.charged) >= 2


@AGENTS
def test_an_agent_takes_a_spent_allowance_for_an_end(pytester, preset):
    """Nothing is sent again and again, and what it had done by then is graded."""
    suite = suite_for(pytester, preset, limits={"calls": 1})
    with LoopbackGateway(solver) as gateway:
        run = suite.live(gateway, "--elo-limit", "1")
    assert run.exit_code == 0, run.output
    (outcome,) = run.outcomes
    assert (outcome["status"], outcome["finish_reason"]) == ("correct", "limit_exceeded")
    assert len(run.charged) == 1


def suite_for(pytester, preset, **parameters):
    if shutil.which(PRESETS[preset].argv[0]) is None:
        pytest.skip(f"{PRESETS[preset].argv[0]} is not installed")
    try:
        choose_sandbox()
    except ConfigError:
        pytest.skip("no sandbox works here")
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
    suite.strategies(coder={"kind": "command", "preset": preset, "seconds": 120, **parameters})
    return suite.set(tasks={"swebench": {"cache": str(suite.path / "cache")}})
