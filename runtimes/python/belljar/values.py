"""Turns Python values into what JSON can say, whatever they are."""

import base64
import math

NODES = 1_000_000
DEPTH = 100
# Larger integers are no number for most JSON readers.
WHOLE = 1 << 63


class Unfit(Exception):
    """The value has no JSON form, or too large a one."""


def plain(value, strict=False):
    """A copy of `value` that encodes as valid JSON.

    NaN and infinities become null. Other objects become their text, or with
    `strict` raise `Unfit`.
    """
    return _plain(value, strict, [NODES], DEPTH)


def _plain(value, strict, budget, depth):
    budget[0] -= 1
    if budget[0] < 0 or depth < 0:
        raise Unfit("too large")
    kind = type(value)
    if value is None or kind is bool or kind is str:
        return value
    if kind is int:
        return value if -WHOLE <= value < WHOLE else str(value)
    if kind is float:
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {
            key if type(key) is str else str(key): _plain(item, strict, budget, depth - 1)
            for key, item in value.items()
        }
    if isinstance(value, (list, tuple)):
        return [_plain(item, strict, budget, depth - 1) for item in value]
    if isinstance(value, (int, float, str)):
        # Subclasses: enumerations, numpy's float64.
        base = next(base for base in (bool, int, float, str) if isinstance(value, base))
        return _plain(base(value), strict, budget, depth)
    if hasattr(value, "tolist") and hasattr(value, "dtype"):
        return _plain(_listed(value, budget), strict, budget, depth - 1)
    if hasattr(value, "isoformat"):
        # NaT of pandas is the one date that is not equal to itself.
        return value.isoformat() if value == value else None
    if kind.__name__ == "NAType":
        return None
    if strict:
        raise Unfit(f"{kind.__name__} has no JSON form")
    if isinstance(value, (bytes, bytearray)):
        return base64.b64encode(value).decode()
    return str(value)


def _listed(value, budget):
    if getattr(value, "size", 1) > budget[0]:
        raise Unfit("too large")
    if value.dtype.kind == "M":
        # As text: `tolist` makes nanoseconds plain integers.
        value = value.astype(str)
    return value.tolist()


def bundle(data):
    """The values of a MIME bundle: text as it is, bytes as base64."""
    result = {}
    for mime, value in data.items():
        if type(value) is not str:
            if isinstance(value, (bytes, bytearray)):
                value = base64.b64encode(value).decode()
            else:
                try:
                    value = plain(value)
                except Unfit:
                    value = str(value)
        result[str(mime)] = value
    return result


def table(frame):
    """A pandas DataFrame as column → list of values."""
    if frame.shape[0] * frame.shape[1] > NODES:
        raise Unfit("too large")
    return {
        str(name): plain(frame.iloc[:, place].tolist())
        for place, name in enumerate(frame.columns)
    }
