"""Which text to index of a list of questions and answers? Measures it on the search set that ships with crosslet.

make serve                                              # in another terminal
.venv-dev/bin/python examples/which_text.py

Each entry of the set is an answer with several questions in several languages. One of them stands for the question of
the list; the others are asked. The table says how often the right entry comes first. Documents are removed afterwards.
"""

import json
import os
from pathlib import Path

import httpx

URL = os.environ.get("CROSSLET_URL", "http://127.0.0.1:8080")
SET = Path(__file__).parents[1] / "training" / "evaluation" / "bundled" / "search"
BATCH = 50


def lines(name: str) -> list[dict[str, str]]:
    return [json.loads(line) for line in (SET / name).read_text(encoding="utf-8").splitlines()]


def read() -> tuple[dict[str, str], dict[str, str], list[tuple[str, str]]]:
    """Answers and questions by entry, and the other questions, each with its entry."""
    answers = {one["id"]: one["text"] for one in lines("documents.jsonl") if one["id"].startswith("faq-")}
    questions, asked = {}, []
    for one in lines("queries.jsonl"):
        entry = one["document"]
        if entry in answers:
            if entry in questions:
                asked.append((one["text"], entry))
            else:
                questions[entry] = one["text"]
    return {entry: answers[entry] for entry in questions}, questions, asked


def right_first(client: httpx.Client, texts: list[tuple[str, str]], asked: list[tuple[str, str]]) -> float:
    """Percent of the questions whose entry comes first, with these texts (entry, text) in the index."""
    mark = {"example": "which_text"}
    documents = [
        {"id": f"which-{number}", "text": text, "metadata": mark | {"entry": entry}}
        for number, (entry, text) in enumerate(texts)
    ]
    for start in range(0, len(documents), BATCH):
        client.put("/documents", json={"documents": documents[start : start + BATCH]}).raise_for_status()
    hits = 0
    for start in range(0, len(asked), BATCH):
        batch = asked[start : start + BATCH]
        request = {"queries": [query for query, _ in batch], "mode": "dense", "top_k": 1, "filter": mark}
        found = client.post("/search", json=request | {"include": ["metadata"]}).raise_for_status().json()["results"]
        hits += sum(one[0]["metadata"]["entry"] == entry for one, (_, entry) in zip(found, batch, strict=True))
    client.post("/documents/delete", json={"filter": mark}).raise_for_status()
    return 100 * hits / len(asked)


def main() -> None:
    answers, questions, asked = read()
    ways = {
        "question": list(questions.items()),
        "answer": list(answers.items()),
        "both in one text": [(entry, f"{questions[entry]} {answer}") for entry, answer in answers.items()],
        "both, a document each": [*questions.items(), *answers.items()],
    }
    with httpx.Client(base_url=URL, timeout=300, trust_env=False) as client:
        for name, texts in ways.items():
            print(f"{name:<22} {right_first(client, texts, asked):5.1f} %  of {len(asked)} questions", flush=True)


if __name__ == "__main__":
    main()
