"""Calendars and date formats. No function here knows what day it is today."""

import datetime
from calendar import isleap
from collections.abc import Callable

MONTHS = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
]
"""English names, spelled out here because strftime's %B follows the locale of the process."""

DATE_FORMATS: dict[str, Callable[[datetime.date], str]] = {
    # Zero-padded on purpose: then every date of a year has the same number of tokens in the paper's
    # tokenizers.
    "iso": lambda d: d.isoformat(),  # 2024-03-05
    "day_month_year": lambda d: (
        f"{d.day:02d} {MONTHS[d.month - 1][:3]} {d.year}"
    ),  # 05 Mar 2024, Llama 3's own
    "month_day_year": lambda d: f"{MONTHS[d.month - 1]} {d.day:02d}, {d.year}",  # March 05, 2024
    "slashes": lambda d: f"{d.day:02d}/{d.month:02d}/{d.year}",  # 05/03/2024
}
"""Name -> function that writes a date. Add a format by adding a line."""


def calendar(
    first: datetime.date, last: datetime.date, step: int = 1, leap_day: str = "skip"
) -> list[datetime.date]:
    """Dates from `first` to `last`, both included, every `step` days.

    With `leap_day="skip"` February 29 is left out before stepping, so a year has 365 dates as in
    the paper (its sweep runs from January 1 to December 31, 2024, in 365 runs). An empty list when
    `last` comes before `first`.
    """
    days = (first + datetime.timedelta(days=i) for i in range((last - first).days + 1))
    return [d for d in days if leap_day == "keep" or not is_leap_day(d)][::step]


def skipped_leap_days(
    first: datetime.date, last: datetime.date, leap_day: str
) -> list[datetime.date]:
    """The February 29ths between `first` and `last` that `leap_day="skip"` leaves out of a
    calendar.
    """
    return (
        []
        if leap_day == "keep"
        else [d for d in calendar(first, last, leap_day="keep") if is_leap_day(d)]
    )


def is_leap_day(day: datetime.date) -> bool:
    """Whether `day` is a February 29."""
    return (day.month, day.day) == (2, 29)


def in_years(days: list[datetime.date], years: list[int]) -> list[datetime.date]:
    """The month and day of each of `days` in each of `years`, ascending, without repeats.

    February 29 only where the year has one.
    """
    wanted = {(d.month, d.day) for d in days}
    return [
        datetime.date(y, *day)
        for y in sorted(set(years))
        for day in sorted(wanted)
        if day != (2, 29) or isleap(y)
    ]


def spread(dates: list[datetime.date], count: int) -> list[datetime.date]:
    """`count` of the `dates`, evenly spaced from the first towards the last.

    All of them when there are fewer.
    """
    count = min(count, len(dates))
    return [dates[i * len(dates) // count] for i in range(count)]
