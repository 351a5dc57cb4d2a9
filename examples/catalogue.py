"""A catalogue in ten languages: ask in any of them, by meaning or by code, under a price.

make serve                                              # in another terminal
.venv-dev/bin/python examples/catalogue.py "waterproof jacket" 100
"""

import os
import sys

import httpx

URL = os.environ.get("CROSSLET_URL", "http://127.0.0.1:8080")
PRODUCTS = [  # code, language, price, text
    ("WJ-210", "de", 89, "Wasserdichte Jacke mit Kapuze, für Damen"),
    ("TN-044", "fr", 149, "Tente légère pour deux personnes"),
    ("CF-300", "it", 35, "Macchina da caffè per due tazze"),
    ("HS-112", "es", 59, "Auriculares inalámbricos con micrófono"),
    ("BK-007", "nl", 499, "Stadsfiets met zeven versnellingen"),
    ("LP-520", "pl", 29, "Lampka na biurko z regulacją jasności"),
    ("RS-018", "pt", 75, "Sapatos de corrida para homem"),
    ("KT-660", "tr", 24, "Paslanmaz çelik su ısıtıcısı"),
    ("BP-091", "ru", 45, "Рюкзак для ноутбука"),
    ("RC-333", "ja", 120, "炊飯器、5合炊き"),
]


def main() -> None:
    query, most = sys.argv[1], float(sys.argv[2])
    documents = [
        {"id": code, "text": f"{text} {code}", "metadata": {"lang": language, "price": price, "kind": "product"}}
        for code, language, price, text in PRODUCTS
    ]
    wanted = {"and": [{"kind": "product"}, {"price": {"lte": most}}]}
    request = {"query": query, "top_k": 3, "filter": wanted, "include": ["text", "metadata"]}
    with httpx.Client(base_url=URL, timeout=30, trust_env=False) as client:
        client.put("/documents", json={"documents": documents}).raise_for_status()
        for one in client.post("/search", json=request).raise_for_status().json()["results"]:
            print(f"{one['metadata']['price']:>4}  {one['metadata']['lang']}  {one['text']}")


if __name__ == "__main__":
    main()
