"""What is fetched from elsewhere: rows of data sets, weights and tokenizers.

In: a task's `Source`, a model's settings. Out: rows as dictionaries, and folders with models in
them.
"""
