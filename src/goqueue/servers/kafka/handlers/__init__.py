"""One file per Kafka API, its versions and gaps at the top."""
