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
"""
