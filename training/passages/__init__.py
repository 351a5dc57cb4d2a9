"""Stage 5: a retrieval teacher shows which passages answer a question. Within one language, on real questions alone.

Not in the paper. Imports `reranking`'s readers of questions, `stages`, `models`, `optimisation`, `evaluation`.
"""
