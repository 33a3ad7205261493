"""The manifest: settings are equal exactly when no key differs, and what differs is named."""

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from pipeline import store
from pipeline.core.errors import StoreError
from pipeline.store import PlanSettings, Run


def settings(value: object) -> PlanSettings:
    """Settings that differ in one value of the sweep."""
    sweep = {"x": value}
    return PlanSettings(sweep=sweep, texts={}, tasks={}, checkpoints={}, versions={})


JSON = st.recursive(
    st.integers() | st.text(max_size=5) | st.none(),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3)
    ),
)


@given(JSON, JSON)
def test_fingerprints_agree_exactly_when_no_difference_is_listed(a: object, b: object) -> None:
    same = settings(a).fingerprint() == settings(b).fingerprint()
    if same:
        assert store.differences({"x": a}, {"x": b}) == []
    else:
        assert store.differences({"x": a}, {"x": b}) or {_missing(a), _missing(b)} <= {True}


def _missing(value: object) -> bool:
    """Whether a value holds nothing but absent things, which a list of differences cannot tell from
    no key at all.
    """
    if isinstance(value, dict):
        return any(_missing(v) for v in value.values()) or not value
    if isinstance(value, list):
        return any(_missing(v) for v in value)
    return value is None


def test_differences_name_nested_keys_with_both_values() -> None:
    old, new = {"a": {"b": 1, "c": [1, 2]}, "d": 0}, {"a": {"b": 2, "c": [1, 3]}, "d": 0}
    assert store.differences(old, new) == ["a.b: was 1, now 2", "a.c.1: was 2, now 3"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda text: text.replace('"sweep"', '"sweeps"'), "settings.sweep: Field required"),
        (lambda text: text[:-20], "the file: Invalid JSON"),
        (lambda text: text.replace('"fingerprint"', '"other"'), "fingerprint: Field required"),
    ],
)
def test_a_manifest_of_another_shape_is_told_with_what_is_wrong(
    simulated_run: Run, tmp_path: Path, change: Callable[[str], str], message: str
) -> None:
    (tmp_path / "manifest.json").write_text(change(simulated_run.manifest_path.read_text()))
    with pytest.raises(StoreError, match=f"cannot be read: {message}.*another version"):
        Run.open(tmp_path).manifest()


def test_a_manifest_is_written_as_it_was_read(simulated_run: Run, tmp_path: Path) -> None:
    again = Run(tmp_path)
    again.write_manifest(simulated_run.manifest())
    assert again.manifest_path.read_bytes() == simulated_run.manifest_path.read_bytes()
