"""The tasks of the suite with other attributes than gender, and the suite `everyone`.

Each module has the prompts of one kind of task. `attributes.toml` says which attributes a task has, and
how its findings are worded.
"""
