import datetime

from hypothesis import given, strategies as st

from pipeline.core import dates

ANY_DATE = st.dates(datetime.date(1990, 1, 1), datetime.date(2060, 12, 31))


def test_a_year_has_the_papers_365_dates_with_and_without_a_leap_day() -> None:
    for year in (2023, 2024):
        assert len(dates.calendar(datetime.date(year, 1, 1), datetime.date(year, 12, 31))) == 365
    assert (
        len(dates.calendar(datetime.date(2024, 1, 1), datetime.date(2024, 12, 31), leap_day="keep"))
        == 366
    )


def test_the_skipped_leap_day_is_named() -> None:
    first, last = datetime.date(2023, 1, 1), datetime.date(2025, 1, 1)
    assert dates.skipped_leap_days(first, last, "skip") == [datetime.date(2024, 2, 29)]
    assert dates.skipped_leap_days(first, last, "keep") == []


@given(ANY_DATE, st.integers(0, 800), st.integers(1, 40))
def test_a_calendar_ascends_within_its_bounds_and_never_holds_a_leap_day(
    first: datetime.date, span: int, step: int
) -> None:
    last = first + datetime.timedelta(days=span)
    days = dates.calendar(first, last, step)
    assert days == sorted(set(days))
    assert all(first <= d <= last and (d.month, d.day) != (2, 29) for d in days)


@given(ANY_DATE, ANY_DATE)
def test_different_dates_are_written_differently_and_equally_long_in_their_numbers(
    a: datetime.date, b: datetime.date
) -> None:
    for write in dates.DATE_FORMATS.values():
        assert (write(a) == write(b)) == (a == b)
        assert sum(c.isdigit() for c in write(a)) == sum(c.isdigit() for c in write(b)), (
            "unpadded numbers would change the token count"
        )


@given(ANY_DATE)
def test_formats_agree_with_the_c_locale(day: datetime.date) -> None:
    patterns = {
        "iso": "%Y-%m-%d",
        "day_month_year": "%d %b %Y",
        "month_day_year": "%B %d, %Y",
        "slashes": "%d/%m/%Y",
    }
    for name, write in dates.DATE_FORMATS.items():
        assert write(day) == day.strftime(patterns[name])


@given(st.integers(1, 400), st.integers(0, 400))
def test_spread_takes_that_many_in_order_from_the_first(size: int, count: int) -> None:
    days = [datetime.date(2024, 1, 1) + datetime.timedelta(days=i) for i in range(size)]
    chosen = dates.spread(days, count)
    assert len(chosen) == min(size, count)
    assert chosen == sorted(set(chosen))
    assert not chosen or chosen[0] == days[0]
