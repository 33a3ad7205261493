"""Calendars and date formats. No function here knows what day it is today."""

import datetime
from calendar import isleap
from collections.abc import Callable
from typing import Literal

LeapDay = Literal["skip", "keep"]

_NAMES = "January February March April May June July August September October November December"
MONTHS = _NAMES.split()
"""English names, spelled out here because strftime's %B follows the locale of the process."""

DATE_FORMATS: dict[str, Callable[[datetime.date], str]] = {
    # Zero-padded on purpose: then every date of a year has the same number of tokens in the paper's
    # tokenizers.
    "iso": lambda d: d.isoformat(),  # 2024-03-05
    # 05 Mar 2024, Llama 3's own
    "day_month_year": lambda d: f"{d.day:02d} {MONTHS[d.month - 1][:3]} {d.year}",
    "month_day_year": lambda d: f"{MONTHS[d.month - 1]} {d.day:02d}, {d.year}",  # March 05, 2024
    "slashes": lambda d: f"{d.day:02d}/{d.month:02d}/{d.year}",  # 05/03/2024
}
"""Name -> function that writes a date. Add a format by adding a line."""


def calendar(
    first: datetime.date, last: datetime.date, step: int = 1, leap_day: LeapDay = "skip"
) -> list[datetime.date]:
    """Dates from `first` to `last`, both included, every `step` days.

    With `leap_day="skip"` February 29 is left out before stepping, so a year has 365 dates as in
    the paper (its sweep runs from January 1 to December 31, 2024, in 365 runs). An empty list when
    `last` comes before `first`.
    """
    days = (first + datetime.timedelta(days=i) for i in range((last - first).days + 1))
    return [d for d in days if leap_day == "keep" or not is_leap_day(d)][::step]


def skipped_leap_days(
    first: datetime.date, last: datetime.date, leap_day: LeapDay
) -> list[datetime.date]:
    """The February 29ths between `first` and `last` that a calendar leaves out."""
    days = calendar(first, last, leap_day="keep") if leap_day == "skip" else []
    return [d for d in days if is_leap_day(d)]


def is_leap_day(day: datetime.date) -> bool:
    """Whether `day` is a February 29."""
    return (day.month, day.day) == (2, 29)


def in_years(days: list[datetime.date], years: list[int]) -> list[datetime.date]:
    """The month and day of each of `days` in each of `years`, ascending, without repeats.

    February 29 only where the year has one.
    """
    months_and_days = sorted({(d.month, d.day) for d in days})
    return [
        datetime.date(year, month, day)
        for year in sorted(set(years))
        for month, day in months_and_days
        if (month, day) != (2, 29) or isleap(year)
    ]


def spread(dates: list[datetime.date], count: int) -> list[datetime.date]:
    """`count` of the `dates`, evenly spaced from the first towards the last.

    All of them when there are fewer.
    """
    count = min(count, len(dates))
    return [dates[i * len(dates) // count] for i in range(count)]
