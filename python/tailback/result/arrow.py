"""A table's columns as Arrow and back: what is missing is null, codes are names, fields have their units."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tailback.errors import ResultError

from . import schema

Array = npt.NDArray[Any]
#: The names that a column counts in, by the list that its schema says.
Names = Callable[[str], Sequence[str]]


def table(name: str, columns: Mapping[str, Array], names: Names | None = None) -> Any:
    """A `pyarrow.Table` over the columns' own memory; with `names`, codes are dictionary columns of words."""
    return _table(name, columns, names, _labelled)


def stored(name: str, columns: Mapping[str, Array], names: Names) -> Any:
    """The same as files have it: dictionaries hold only words that occur, so that no part depends on the rest."""
    return _table(name, columns, names, _compact)


def columns(name: str, loaded: Any, names: Names) -> dict[str, Array]:
    """A table's columns from what `stored` made: words are codes again."""
    import pyarrow as pa

    out = {}
    for key in loaded.column_names:
        column, stated = loaded[key], schema.known(name, key)
        if stated is not None and pa.types.is_dictionary(column.type):
            out[key] = _codes(column, stated, _labels(stated, names))
            continue
        if stated is not None and stated.none is not None and column.null_count:
            column = column.fill_null(stated.none)
        out[key] = column.combine_chunks().to_numpy(zero_copy_only=False)
    return out


def _table(name: str, columns: Mapping[str, Array], names: Names | None, labelled: Callable[..., Any]) -> Any:
    import pyarrow as pa

    arrays, fields = [], []
    for key, column in columns.items():
        stated = schema.known(name, key)
        if stated is not None and names is not None and (stated.words or stated.names):
            array = labelled(column, _labels(stated, names), stated.none)
        elif column.dtype.kind == "f":
            array = pa.array(column, from_pandas=True)
        else:
            # Codes without labels stay as they are.
            is_number = stated is not None and not stated.words and stated.names is None
            array = pa.array(column, mask=_missing(column, stated.none) if stated and is_number else None)
        arrays.append(array)
        fields.append(pa.field(key, array.type, metadata=None if stated is None else _about(stated)))
    return pa.table(arrays, schema=pa.schema(fields))


def _about(stated: schema.Column) -> dict[str, str] | None:
    about = {"unit": stated.unit} if stated.unit else {}
    if stated.words:
        about["labels"] = json.dumps(stated.words)
    return about or None


def _labels(stated: schema.Column, names: Names) -> Sequence[str]:
    return names(stated.names) if stated.names is not None else stated.words


def _missing(column: Array, none: int | None) -> Array | None:
    """Which rows are missing; None if none are."""
    if none is None:
        return None
    mask = column == none
    return mask if mask.any() else None


def _labelled(codes: Array, labels: Sequence[str], none: int | None) -> Any:
    import pyarrow as pa

    array = pa.array(codes, mask=_missing(codes, none))
    return pa.DictionaryArray.from_arrays(array, pa.array(labels, type=pa.string()))


def _compact(codes: Array, labels: Sequence[str], none: int | None) -> Any:
    import pyarrow as pa

    mask = _missing(codes, none)
    known = codes if mask is None else np.where(mask, 0, codes)
    used = np.bincount(known if mask is None else codes[~mask])
    if len(used) > len(labels):
        raise ResultError(f"the code {len(used) - 1} stands for nothing: there are {len(labels)} words")
    occurring = np.flatnonzero(used)
    place = np.zeros(len(labels) or 1, dtype=np.int32)
    place[occurring] = np.arange(len(occurring), dtype=np.int32)
    words = pa.array([labels[code] for code in occurring.tolist()], type=pa.string())
    return pa.DictionaryArray.from_arrays(pa.array(place[known], mask=mask), words)


def _codes(column: Any, stated: schema.Column, labels: Sequence[str]) -> Array:
    code = {word: number for number, word in enumerate(labels)}
    parts = []
    for chunk in column.chunks:
        codes = np.array([code[word] for word in chunk.dictionary.to_pylist()] or [0], dtype=stated.type)
        indices = chunk.indices
        part = codes[indices.fill_null(0).to_numpy(zero_copy_only=False)]
        if indices.null_count:
            part[indices.is_null().to_numpy(zero_copy_only=False)] = stated.none
        parts.append(part)
    return np.concatenate(parts) if parts else np.zeros(0, dtype=stated.type)
