"""The comparison's report: bars first, met or not, and nothing that was not measured looks as if it had been."""

from __future__ import annotations

from tests.bench.peers import writing
from tests.bench.peers.bars import bars, is_measured
from tests.bench.peers.findings import Finding, Measured, Sample
from tests.bench.peers.report import markdown, one_line

OURS, HTTP, KAFKA, REDIS = "GoQueue, Kafka wire", "GoQueue, HTTP", "Apache Kafka", "Redis Streams"


def found_of(*samples: Sample) -> Finding:
    measured = Measured("all", "2026-11-16T07:00:00+00:00", 12.3, 0.5, list(samples), [])
    scale = {"name": "quick", "rounds": 3, "throughput_rounds": 5, "close_rounds": 2, "log_gib": []}
    skipped = {"RabbitMQ": "needs it"}
    return Finding({"python": "3"}, "abc", "1", {}, scale, [], skipped, ["make it"], ["all"], [measured])


def met(found: Finding) -> dict[str, tuple[str, bool | None]]:
    return {bar.what: (bar.figure, bar.met) for bar in bars(found) if is_measured(bar)}


def rounds(workload: str, peer: str, figure: str, *values: float) -> list[Sample]:
    return [Sample(workload, peer, number, {figure: value}) for number, value in enumerate(values)]


def test_the_report_says_first_what_was_not_met_and_what_was_not_measured():
    ours = rounds("100 B", OURS, "produce_per_s", 80, 81, 82)
    theirs = rounds("100 B", KAFKA, "produce_per_s", 100, 101, 102)

    found = found_of(*ours, *theirs)
    lines = markdown(found).splitlines()

    figure = "0.80 (0.80 to 0.80, 3 rounds)"
    assert met(found) == {"produce 100 B, times Apache Kafka": (figure, False)}
    assert lines[2] == f"**Not met (1 of 1 bars):** produce 100 B, times Apache Kafka: {figure}, bar ≥ 1."
    assert lines[4].startswith("**Not measured:** produce 100 B, share of the null broker; consume 100 B, share")
    assert f"| produce 100 B, times Apache Kafka | {figure} | ≥ 1 | **not met** |" in lines
    assert "Not taken part: RabbitMQ (needs it)." in lines
    assert "| Apache Kafka | 101 |" in lines
    assert "| all | 2026-11-16 07:00:00 | 12 s | 0.50 |" in lines


def test_a_bar_is_judged_by_the_median_of_the_rounds_and_told_with_the_lowest_and_the_highest():
    samples = [
        *rounds("1000 B", OURS, "consume_per_s", 93, 97, 102, 98, 96),
        *rounds("1000 B", KAFKA, "consume_per_s", 100, 100, 100, 100, 100),
        *rounds("1000 B", OURS, "produce_per_s", 90, 300, 110),
        *rounds("1000 B", KAFKA, "produce_per_s", 100, 100, 100),
    ]

    assert met(found_of(*samples)) == {
        "consume 1000 B, times Apache Kafka": ("0.97 (0.93 to 1.02, 5 rounds)", False),
        "produce 1000 B, times Apache Kafka": ("1.10 (0.90 to 3.00, 3 rounds)", True),
    }


def test_a_round_that_only_one_of_two_has_is_not_compared():
    samples = [
        *rounds("100 B", OURS, "produce_per_s", 90, 95, 99),
        *rounds("100 B", KAFKA, "produce_per_s", 100, 100),
    ]

    assert met(found_of(*samples)) == {"produce 100 B, times Apache Kafka": ("0.93 (0.90 to 0.95, 2 rounds)", False)}


def test_the_report_says_how_many_rounds_there_were_and_that_every_server_was_woken():
    text = markdown(found_of(*rounds("100 B", OURS, "produce_per_s", 1.0)))

    assert "3 rounds, 5 of throughput by size, of queues and of long logs, 7 where the client is confluent" in text
    assert "every server, null brokers too, is woken right before\neach timed turn" in text


def test_the_bar_of_the_queue_is_for_the_share_group_and_http_is_told_beside_it():
    samples = [
        *rounds("receive and ack", OURS, "receive_ack_per_s", 120),
        *rounds("receive and ack", HTTP, "receive_ack_per_s", 40),
        *rounds("receive and ack", REDIS, "receive_ack_per_s", 100),
    ]

    assert met(found_of(*samples)) == {
        "receive and ack in a share group, times Redis Streams": ("1.20", True),
        "receive and ack over HTTP, times Redis Streams": ("0.40", None),
    }


def test_growth_compares_the_smallest_log_with_the_largest_round_by_round():
    samples = [
        *rounds("1 GiB in the log", OURS, "cpu_s_per_million", 1.0, 2.0, 1.0),
        *rounds("10 GiB in the log", OURS, "cpu_s_per_million", 5.0, 5.0, 5.0),
        *rounds("30 GiB in the log", OURS, "cpu_s_per_million", 1.05, 2.1, 1.3),
        *rounds("1 partitions", OURS, "cpu_s_per_million", 1.0),
        *rounds("100 partitions", OURS, "cpu_s_per_million", 1.4),
    ]

    assert met(found_of(*samples)) == {
        "30 GiB in the log against 1 GiB in the log: CPU per message": ("1.05 (1.05 to 1.30, 3 rounds)", True),
        "100 partitions against 1: CPU per message": ("1.40", False),
    }


def test_a_failure_is_told_in_one_line():
    assert one_line("Wrong: the client failed:\nTraceback\n  File\nTimeoutError: late\n") == (
        "Wrong: the client failed: … TimeoutError: late"
    )
    assert one_line("one") == "one"


def test_a_finding_survives_its_file_and_a_new_run_keeps_the_one_before(tmp_path):
    found = found_of(*rounds("durable", OURS, "produce_per_s", 1.0))

    writing.write(found, tmp_path)
    assert writing.read(tmp_path) == found
    writing.set_aside(tmp_path)

    assert writing.read(tmp_path) is None
    assert (tmp_path / "peers-before.json").exists()


def test_publishing_replaces_the_report_between_its_marks_and_nothing_else(tmp_path):
    page = tmp_path / "benchmarks.md"
    page.write_text(f"before\n\n{writing.BEGIN}\nold\n{writing.END}\n\n## After\n")

    writing.publish(found_of(*rounds("durable", OURS, "produce_per_s", 1.0)), tmp_path)
    writing.publish(found_of(*rounds("durable", OURS, "produce_per_s", 2.0)), tmp_path)

    text = page.read_text()
    assert text.startswith(f"before\n\n{writing.BEGIN}\n## Side by side")
    assert text.endswith(f"{writing.END}\n\n## After\n")
    assert f"| {OURS} | 2.00 |" in text
    assert "1.00" not in text
