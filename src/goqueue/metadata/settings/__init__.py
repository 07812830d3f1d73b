"""Settings of topics: their names, what each may be, and what follows from a topic's own ones and the defaults.

`topic_settings.py` is the table, one `topic_setting.py` a row; `rules.py` reads and checks values. Values only: who
stores them is `metadata/`, who obeys them is the part that a setting is about.
Begin with `topic_config.py`.
"""
