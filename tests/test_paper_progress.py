"""Progress of the runs: what is written, when, and where it goes."""

import io
from time import monotonic

import pytest
from report_helpers import make_record

from tatml_paper.progress import Progress, expected_seconds


class Terminal(io.StringIO):
    def isatty(self):
        return True


def reporter(n_tasks=4, jobs=1, known=(), stream=None):
    return Progress(n_tasks, jobs, known, io.StringIO() if stream is None else stream)


def said(progress):
    return progress.stream.getvalue().splitlines()


THERE = "found there, made"


@pytest.mark.parametrize(
    ("dates", "expected"),
    [
        ([], "somewhere: 4 of 4 runs now; none found"),
        (
            ["2026-01-02"],
            f"somewhere: 3 of 4 runs now; 1 {THERE} 2026-01-02, not run again",
        ),
        (
            ["2026-01-03", "2026-01-01", "2026-01-02"],
            f"somewhere: 1 of 4 runs now; 3 {THERE} 2026-01-01 to 2026-01-03, not run again",
        ),
    ],
)
def test_the_start_says_what_was_found_and_when_it_was_made(dates, expected):
    progress = reporter()
    progress.start("somewhere", [{"date": f"{date}T03:04:05+00:00"} for date in dates])
    assert said(progress) == [expected]


def test_a_line_says_how_many_are_done_and_what_is_left():
    """The first two runs took 3 s and 5 s: six more on two jobs take 12 s."""
    records = [make_record("euc", repeat, seconds=2.0, seconds_scoring=1.0) for repeat in range(8)]
    progress = reporter(8, 2, records[:1])
    done = {record["key"]: record for record in records[:2]}
    progress.finished(records[1] | {"seconds": 4.0}, records, done)
    assert said(progress) == ["2/8, about 12 s left  virus M=1;(1) euc"]
    everything = {record["key"]: record for record in records}
    progress = reporter(8, 2)
    progress.finished(records[7], records, everything)
    assert said(progress) == ["8/8  virus M=1;(1) euc"]


def test_runs_without_a_time_do_not_count_in_the_estimate():
    failed = {name: value for name, value in make_record("euc").items() if name != "seconds"}
    timed = make_record("euc", 1, seconds=5.0)
    assert reporter(2, 1, [failed, timed]).timed == [timed]
    progress = reporter(2, 1)
    progress.finished(failed | {"error": "no"}, [failed, timed], {failed["key"]: failed})
    assert progress.timed == []
    assert said(progress) == ["1/2, about 0 s left  virus M=1;(1) euc FAILED"]


def test_lines_come_every_fifteen_seconds_and_at_once_if_a_run_failed():
    record = make_record("euc")
    progress = reporter()
    for seconds_ago, n_lines in ((0.0, 0), (13.0, 0), (15.5, 1)):
        progress.last = monotonic() - seconds_ago
        progress.finished(record, [record], {})
        assert len(said(progress)) == n_lines, seconds_ago
    progress.finished(record, [record], {})
    assert len(said(progress)) == 1  # the clock starts again with each line
    progress.finished(record | {"error": "ValueError: no"}, [record], {})
    progress.note("extracting")
    assert len(said(progress)) == 3


def test_the_first_line_comes_at_once():
    progress = reporter()
    record = make_record("euc")
    progress.finished(record, [record], {})
    assert len(said(progress)) == 1


def test_a_terminal_has_one_line_that_is_written_anew():
    record = make_record("euc")
    progress = reporter(2, stream=Terminal())
    for _ in range(2):
        progress.finished(record, [record], {record["key"]: record})
    line = "\r\x1b[2K2/2  virus M=1;(1) euc"
    assert progress.stream.getvalue() == 2 * line
    progress.note("extracting")
    progress.end({})
    assert progress.stream.getvalue() == 2 * line + "\r\x1b[2Kextracting\r\x1b[2Kdone in 0 s\n"


def test_without_a_stream_nothing_is_written(capsys):
    progress = Progress(2, 1, [], None)
    record = make_record("euc")
    progress.start("somewhere", [])
    progress.finished(record, [record], {})
    progress.end({"key": record})
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        (0.4, "0 s"),
        (89.4, "89 s"),
        (90.5, "2 min"),
        (5390.0, "90 min"),
        (5400.5, "1.5 h"),
        (7200.0, "2.0 h"),
    ],
)
def test_the_end_says_how_long_it_took_and_what_failed(seconds, expected):
    progress = reporter()
    progress.begun = monotonic() - seconds
    failed = make_record("euc", 3, None, error="ValueError: no")
    progress.end({"a": make_record("euc"), "b": failed})
    assert said(progress) == [
        f"done in {expected}",
        "failed: virus/M=1;(1)/euc, repeat 3: ValueError: no",
    ]


def test_similar_runs_are_sought_from_near_to_far():
    """Same method and features; then same data set; then same method; then all runs."""
    names = ("experiment", "dataset", "features", "method")
    timed = [
        dict(zip(names, place, strict=True)) | {"seconds": seconds, "seconds_scoring": 0.5}
        for place, seconds in (
            (("table1", "virus", "a", "euc"), 0.5),
            (("table1", "virus", "b", "euc"), 2.5),
            (("table1", "eth80", "a", "euc"), 8.5),
            (("table1", "eth80", "a", "nca"), 19.5),
            (("sensitivity", "eth80", "a", "euc"), 99.5),
        )
    ]
    for place, expected in (
        (("table1", "virus", "b", "euc"), 3.0),
        (("table1", "virus", "c", "euc"), (1 + 3) / 2),
        (("table1", "brodatz", "a", "euc"), (1 + 3 + 9) / 3),
        (("table1", "virus", "a", "lda"), (1 + 3 + 9 + 20 + 100) / 5),
    ):
        left = [dict(zip(names, place, strict=True))]
        assert expected_seconds(left, timed) == pytest.approx(expected), place
        assert expected_seconds(left * 2, timed) == pytest.approx(2 * expected), place
