"""All that is varied but for the day, and its name: `iso;placement=user_end;order=2`.

The name is a column of every table and an option of `show`; nothing else writes or reads it.
"""

import datetime
from dataclasses import dataclass, fields

from pipeline.core import dates
from pipeline.core.errors import ConfigError, nearest
from pipeline.core.records import CONTROL, Variant
from pipeline.settings import CalendarSpec, ConditionsSpec, checked


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """One value of each axis of a sweep. The defaults are what a name does not mention."""

    date_format: str = ""
    """Empty for a control."""
    placement: str = "system_start"
    """As here for a control, which has no date to place."""
    wording: str = "none"
    order: int = 0
    location: str = "none"
    year: int | None = None
    """Where a sweep has several."""

    @property
    def name(self) -> str:
        """The date format, or `control`, and what is not as usual."""
        axes = [(axis, getattr(self, axis.name)) for axis in fields(self)[1:]]
        unusual = [f"{axis.name}={value}" for axis, value in axes if value != axis.default]
        return ";".join([self.date_format or CONTROL, *unusual])

    def on(self, day: datetime.date | None) -> Variant:
        """The variant of this condition on `day`; None for a control."""
        first, *unusual = self.name.split(";")
        return Variant(
            variant=";".join([f"{first}:{day}" if day else first, *unusual]),
            condition=self.name,
            date=day,
            year=self.year,
            date_format=self.date_format,
            date_text=dates.DATE_FORMATS[self.date_format](day) if day else "",
            placement=self.placement if day else "",
            wording=self.wording,
            option_order=self.order,
            location=self.location,
        )


_LISTS = {
    "placement": "placements",
    "wording": "wordings",
    "order": "option_orders",
    "location": "locations",
    "year": "years",
}
"""Axis -> the setting that lists its values in a sweep."""


def parse(name: str, option: str) -> Condition:
    """The condition that has this name; its axes may stand in any order.

    Raises:
        ConfigError: no such format, axis or value, an axis given twice, or one that a control has
            not; `option` is what the message says was given.
    """
    first, *parts = name.split(";")
    formats = [CONTROL, *dates.DATE_FORMATS]
    if first not in formats:
        hint = nearest(first, formats)
        raise ConfigError(f"{option}: given {first!r}; allowed first: {', '.join(formats)}{hint}")
    allowed = [a for a in _LISTS if first != CONTROL or a not in ("placement", "year")]
    values: dict[str, int | str] = {}
    for axis, _, text in (part.partition("=") for part in parts):
        if axis not in allowed:
            raise ConfigError(
                f"{option}: given {axis!r}; allowed behind {first}: "
                f"{', '.join(allowed)}{nearest(axis, allowed)}"
            )
        if axis in values:
            raise ConfigError(f"{option}: given {name!r}; {axis} is given twice; allowed: once")
        values[axis] = int(text) if axis in ("order", "year") and text.isdecimal() else text
    _check(values, option)
    return Condition(date_format="" if first == CONTROL else first, **values)  # type: ignore[arg-type]


def _check(values: dict[str, int | str], option: str) -> None:
    lists = {_LISTS[axis]: [value] for axis, value in values.items()}
    years = {"years": lists.pop("years")} if "years" in lists else {}
    checked(CalendarSpec, years, option)
    checked(ConditionsSpec, lists, option)
