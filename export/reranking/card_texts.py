"""What the card of a re-ranker says otherwise than that of an encoder. Knows Markdown; measures nothing."""

SUMMARY = """\
A cross-encoder: a query and a passage in, one score in [0, 1] out, higher where the passage answers the query, across
languages. It puts the best of the passages that a search has found first.
"""
SCORES = "(query-passage; mixed: each query and passage in a language of its own)"
EVALUATE = "`crosslet evaluate FOLDER --data DIR --sets rerank`"
LIMITATIONS = """\
- A pair beyond {max_length} tokens loses the end of its passage: split longer documents, and keep the best score.
- Only the languages above were trained or measured; others may share scripts and words, but nothing is promised.
- Scores rank the passages of one query; they are no probabilities, and those of two queries cannot be compared.
- Score one pair at a time: in a batch, padding and company change the last digits of a score.
- The model repeats the biases of its base and of its training data.
"""
USE = """\
With the service, from its repository:

```sh
CROSSLET_RERANKER=path/to/this/folder make serve
```

With onnxruntime and tokenizers alone, in this folder:

```python
import os

os.environ["ORT_DISABLE_TELEMETRY"] = "1"  # before it is loaded: ONNX Runtime reports by itself

import numpy as np
import onnxruntime
import tokenizers

tokenizer = tokenizers.Tokenizer.from_file("tokenizer.json")
tokenizer.enable_truncation({max_length}, strategy="only_second")
options = onnxruntime.SessionOptions()
{exactness}session = onnxruntime.InferenceSession("model.onnx", options, providers=["CPUExecutionProvider"])

def score(query, passage):
    ids = np.array([tokenizer.encode(query, passage).ids])
    return session.run(["score"], {{"input_ids": ids, "attention_mask": np.ones_like(ids)}})[0][0, 0]

print(score("Who plays?", "A man is playing a guitar."))
```
"""
