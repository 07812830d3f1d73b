"""Steps as data frames of Spark. Where the rows come from and go to is decided elsewhere. Begin with `build.py`."""
