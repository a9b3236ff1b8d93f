"""Converts a table's columns to Arrow and back: missing values are null, codes are names, fields have units.

Arrays are converted through buffers: `pyarrow.array` and `to_numpy` would import pandas if installed, and pyarrow's
compute functions, which takes longer than a short run.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tailback.errors import ResultError
from tailback.lazy import lazy

from . import schema

with lazy():
    import pyarrow as pa

Array = npt.NDArray[Any]
#: The names that columns index, by the list in their schema.
Names = Callable[[str], Sequence[str]]


def table(name: str, columns: Mapping[str, Array], names: Names | None = None) -> Any:
    """A `pyarrow.Table` over the columns' memory; with `names`, codes become dictionary columns of words."""
    return _table(name, columns, names, _labelled)


def stored(name: str, columns: Mapping[str, Array], names: Names) -> Any:
    """The table in the form of files: dictionaries hold only the words that occur, so that parts are independent."""
    return _table(name, columns, names, _compact)


def columns(name: str, loaded: Any, names: Names) -> dict[str, Array]:
    """A table's columns from the form of `stored`: words become codes again."""
    out = {}
    for key in loaded.column_names:
        column, stated = loaded[key], schema.known(name, key)
        if stated is not None and pa.types.is_dictionary(column.type):
            out[key] = _codes(column, stated, _labels(stated, names))
            continue
        parts = [_values(chunk, None if stated is None else stated.none) for chunk in column.chunks]
        out[key] = parts[0] if len(parts) == 1 else np.concatenate(parts) if parts else column.to_numpy()
    return out


def _values(array: Any, none: int | None) -> Array:
    """An array's values, with NaN or `none` for missing ones."""
    kind, count, at = array.type, len(array), int(array.offset)
    is_float = pa.types.is_floating(kind)
    is_plain = is_float or pa.types.is_integer(kind) or pa.types.is_boolean(kind)
    if not is_plain or not count or (array.null_count and not is_float and none is None):
        plain: Array = array.to_numpy(zero_copy_only=False)
        return plain
    valid, data = array.buffers()
    if pa.types.is_boolean(kind):
        values: Array = _bits(data, at, count)
    else:
        values = np.frombuffer(data, dtype=kind.to_pandas_dtype())[at : at + count]
    if array.null_count:
        missing: Any = np.nan if is_float else none
        values = np.where(_bits(valid, at, count), values, missing).astype(values.dtype)
    return values


def _bits(buffer: Any, at: int, count: int) -> Array:
    bits = np.unpackbits(np.frombuffer(buffer, dtype=np.uint8), bitorder="little")
    return bits[at : at + count].astype(bool)


def _array(values: Array, mask: Array | None = None) -> Any:
    """Numbers or flags as an array over the same memory; `mask` marks missing ones."""
    if values.dtype.kind == "f" and mask is None:
        mask = np.isnan(values)
    valid, nulls = None, 0
    if mask is not None and (nulls := int(np.count_nonzero(mask))):
        valid = pa.py_buffer(np.packbits(~mask, bitorder="little"))
    if values.dtype.kind == "b":
        data = np.packbits(values, bitorder="little")
        return pa.Array.from_buffers(pa.bool_(), len(values), [valid, pa.py_buffer(data)], nulls)
    kind = pa.from_numpy_dtype(values.dtype)
    return pa.Array.from_buffers(kind, len(values), [valid, pa.py_buffer(np.ascontiguousarray(values))], nulls)


def _texts(words: Sequence[str]) -> Any:
    data = [word.encode() for word in words]
    ends = np.cumsum([0, *map(len, data)], dtype=np.int32)
    return pa.StringArray.from_buffers(len(data), pa.py_buffer(ends), pa.py_buffer(b"".join(data)))


def _table(name: str, columns: Mapping[str, Array], names: Names | None, labelled: Callable[..., Any]) -> Any:
    arrays, fields = [], []
    for key, column in columns.items():
        stated = schema.known(name, key)
        if stated is not None and names is not None and (stated.words or stated.names):
            array = labelled(column, _labels(stated, names), stated.none)
        else:
            # Codes without labels stay as they are.
            is_number = stated is not None and not stated.words and stated.names is None
            array = _array(column, _missing(column, stated.none) if stated and is_number else None)
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
    return pa.DictionaryArray.from_arrays(_array(codes, _missing(codes, none)), _texts(labels))


def _compact(codes: Array, labels: Sequence[str], none: int | None) -> Any:
    mask = _missing(codes, none)
    known = codes if mask is None else np.where(mask, 0, codes)
    used = np.bincount(known if mask is None else codes[~mask])
    if len(used) > len(labels):
        raise ResultError(f"the code {len(used) - 1} stands for nothing: there are {len(labels)} words")
    occurring = np.flatnonzero(used)
    place = np.zeros(len(labels) or 1, dtype=np.int32)
    place[occurring] = np.arange(len(occurring), dtype=np.int32)
    words = _texts([labels[code] for code in occurring.tolist()])
    return pa.DictionaryArray.from_arrays(_array(place[known], mask), words)


def _codes(column: Any, stated: schema.Column, labels: Sequence[str]) -> Array:
    code = {word: number for number, word in enumerate(labels)}
    parts = []
    for chunk in column.chunks:
        codes = np.array([code[word] for word in chunk.dictionary.to_pylist()] or [0], dtype=stated.type)
        indices = chunk.indices
        # A missing code indexes -1, the last word; it is replaced afterwards.
        places = _values(indices, -1)
        part = codes[places]
        if indices.null_count:
            part[places == -1] = stated.none
        parts.append(part)
    return np.concatenate(parts) if parts else np.zeros(0, dtype=stated.type)
