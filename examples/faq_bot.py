"""A bot that answers questions in 18 languages from a list of answers, and says when it does not know.

make serve                                              # in another terminal
.venv-dev/bin/python examples/faq_bot.py "Ich habe mein Passwort vergessen"
"""

import os
import sys

import httpx

URL = os.environ.get("CROSSLET_URL", "http://127.0.0.1:8080")
FAQ = {
    "How can I reset my password?": "Choose “Forgot password” on the sign-in page.",
    "Do you ship abroad?": "Yes, to all of Europe, within five days.",
    "How do I return an item?": "Send it back within 30 days; the label is in the parcel.",
    "When are you open?": "Monday to Saturday, 9 to 18.",
}
BOT = {"bot": "faq"}


def answer(client: httpx.Client, question: str) -> str:
    request = {"query": question, "top_k": 1, "filter": BOT, "include": ["metadata"], "min_confidence": 0.8}
    results = client.post("/search", json=request).raise_for_status().json()["results"]
    return results[0]["metadata"]["answer"] if results else "I do not know. A colleague will answer."


def main() -> None:
    with httpx.Client(base_url=URL, timeout=30, trust_env=False) as client:
        entries = [{"id": f"faq-{q}", "text": q, "metadata": BOT | {"answer": a}} for q, a in FAQ.items()]
        client.put("/documents", json={"documents": entries}).raise_for_status()
        print(answer(client, " ".join(sys.argv[1:])))


if __name__ == "__main__":
    main()
