"""A small `gym eval run`: `small_gym.py eval run OUTPUT [--resume]`, with agent, model and dispatcher of its own.

The file `<OUTPUT's folder>/plan.json` says what the model answers: for each round a map from task to `[status, body]`;
other tasks are answered well. Rows go where Gym puts them, and a resume sends what Gym sends again.
"""

import json
import os
import sys
import threading
import urllib.error
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

TASKS = range(4)
OUTPUT = Path(sys.argv[3])
PLAN = json.loads(OUTPUT.with_name("plan.json").read_text())
ROUND = len(list(OUTPUT.parent.glob("round-*")))
OUTPUT.with_name(f"round-{ROUND}").write_text(" ".join(sys.argv[1:]))
FAILING = PLAN["rounds"][min(ROUND, len(PLAN["rounds"]) - 1)]
OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))
LISTENERS: dict[str, str] = {}


def beside(ending: str) -> Path:
    return OUTPUT.with_name(OUTPUT.stem + ending)


def send(method: str, url: str, body: Any, **fields: str) -> tuple[int, Any]:
    headers = {"Content-Type": "application/json"} | {name.replace("_", "-"): value for name, value in fields.items()}
    try:
        with OPENER.open(urllib.request.Request(url, json.dumps(body).encode(), headers, method=method)) as answer:
            return answer.status, json.loads(answer.read())
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


class Server(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.answers(*(self.model(body) if self.path == "/v1/responses" else self.agent(body)))

    def agent(self, body: Any) -> tuple[int, Any]:
        """Asks the model on behalf of the rollout, and makes a 0 of whatever went wrong."""
        owner = self.headers["Rollcall-Owner"]
        status, _ = send("POST", LISTENERS["model"] + "/v1/responses", body, Rollcall_Owner=owner)
        return 200, {"reward": 1.0 if status == 200 else 0.0, "response": {"output": [{"type": "message"}]}}

    def model(self, body: Any) -> tuple[int, Any]:
        status, answer = FAILING.get(str(body["_ng_task_index"]), [200, {"status": "completed"}])
        return status, answer

    def answers(self, status: int, value: Any) -> None:
        text = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *_: Any) -> None:
        pass


def rows(path: Path) -> list[Any]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def pending() -> list[int]:
    """What has no row among the results, and fewer than three among the failures."""
    if "--resume" not in sys.argv:
        OUTPUT.write_text("")
        return list(TASKS)
    done = {row["_ng_task_index"] for row in rows(OUTPUT)}
    attempts = [row["_ng_task_index"] for row in rows(beside("_failures.jsonl"))]
    return [task for task in TASKS if task not in done and attempts.count(task) < 3]


def main() -> int:
    proxy, host = os.environ["ROLLCALL_PROXY"], "127.0.0.1"
    config = {}
    for name, kind in (("agent", "responses_api_agents"), ("model", "responses_api_models")):
        server = ThreadingHTTPServer((host, 0), Server)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        config[name] = {kind: {"small": {"host": host, "port": server.server_port, "entrypoint": "app.py"}}}
    config["agent"]["responses_api_agents"]["small"]["model_server"] = {"type": "responses_api_models", "name": "model"}
    send("POST", f"{proxy}/v1/config", {"config": json.dumps(config), "own": None})
    with OPENER.open(f"{proxy}/v1/upstreams") as answer:
        LISTENERS.update({each["name"]: each["listener"] for each in json.load(answer)["upstreams"]})
    todo = pending()
    run = json.loads(beside("_rollcall.json").read_text())["run"] if "--resume" in sys.argv else f"r-{os.getpid()}"
    about = {"run": run, "output": str(OUTPUT), "mode": "fresh", "launch": os.environ["ROLLCALL_LAUNCH"]}
    session = f"s-{os.getpid()}"
    send("PUT", f"{proxy}/v1/sessions/{session}", about)
    beside("_rollcall.json").write_text(json.dumps({"version": 1, "run": run}))
    inputs = [{"_ng_task_index": task, "_ng_rollout_index": 0, "agent_ref": {"name": "agent"}} for task in TASKS]
    beside("_materialized_inputs.jsonl").write_text("".join(json.dumps(row) + "\n" for row in inputs))
    expected = [["agent", task, 0, None] for task in TASKS]
    body = {"session": session, "source": "inputs", "digest": "sha256:0", "rollouts": expected}
    send("PUT", f"{proxy}/v1/runs/{run}/expected", body)
    for task in todo:
        _, row = send("POST", LISTENERS["agent"] + "/run", inputs[task], Rollcall_Session=session)
        path = beside("_failures.jsonl") if "_ng_failure_class" in row and not PLAN.get("misplaces") else OUTPUT
        with path.open("a") as file:
            file.write(json.dumps({**row, **inputs[task]}) + "\n")
    send("POST", f"{proxy}/v1/runs/{run}/gate", {})
    send("POST", f"{proxy}/v1/sessions/{session}/heartbeat", {"state": "ended"})
    return int(PLAN.get("status", 0))


if __name__ == "__main__":
    sys.exit(main())
