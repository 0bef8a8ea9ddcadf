"""Reads the data of a chart back from a matplotlib figure.

A figure is judged by what its axes hold: recorded box plots, wedges, bars,
point collections or lines, in this order. Whatever is none of these is
`unknown`; the picture is sent in any case.
"""

import functools
import re

from .values import Unfit, plain

POINTS = 100_000
UNIT = re.compile(r"[(\[]([^()\[\]]+)[)\]]")
BOXES = "_belljar_boxes"


def extract(figure):
    charts = [chart(axes) for axes in figure.axes if axes.get_visible() and not is_colorbar(axes)]
    if len(charts) == 1:
        result = charts[0]
        result["title"] = result["title"] or text_of(figure._suptitle)
    elif charts:
        result = {"type": "superchart", "title": text_of(figure._suptitle), "elements": charts}
    else:
        result = {"type": "unknown", "title": text_of(figure._suptitle), "elements": []}
    return plain(result)


def chart(axes):
    boxes = getattr(axes, BOXES, None)
    wedges = [patch for patch in axes.patches if type(patch).__name__ == "Wedge"]
    bars = [c for c in axes.containers if type(c).__name__ == "BarContainer" and len(c.patches)]
    clouds = [c for c in axes.collections if type(c).__name__ == "PathCollection"]
    # `axhline` and its kin span the axes; they are no data.
    lines = [line for line in axes.lines if line.get_transform() == axes.transData]
    if boxes:
        return described(axes, "box_and_whisker", [box(stats) for stats in boxes])
    if wedges:
        return titled(axes, "pie", [wedge(patch) for patch in wedges])
    if bars:
        return described(axes, "bar", [element for container in bars for element in bar(axes, container)])
    if clouds or lines:
        budget(clouds, lines)
        only_markers = all(line.get_linestyle() in ("None", "none", "", " ") for line in lines)
        series = [cloud(axes, c, n) for n, c in enumerate(clouds)] + [line_of(axes, l) for l in lines]
        return scaled(axes, "scatter" if clouds or only_markers else "line", series)
    return titled(axes, "unknown", [])


def budget(clouds, lines):
    count = sum(len(c.get_offsets()) for c in clouds) + sum(len(l.get_xdata()) for l in lines)
    if count > POINTS:
        raise Unfit("too many points")


def titled(axes, kind, elements):
    titles = (axes.get_title(loc) for loc in ("center", "left", "right"))
    return {"type": kind, "title": next(filter(None, titles), None), "elements": elements}


def described(axes, kind, elements):
    x, y = axes.get_xlabel() or None, axes.get_ylabel() or None
    return {
        **titled(axes, kind, elements),
        "x_label": x, "y_label": y, "x_unit": unit(x), "y_unit": unit(y),
    }


def scaled(axes, kind, elements):
    result = described(axes, kind, elements)
    for name, axis in (("x", axes.xaxis), ("y", axes.yaxis)):
        result[f"{name}_ticks"] = [coordinate(axis, value) for value in axis.get_majorticklocs()]
        result[f"{name}_tick_labels"] = [label.get_text() for label in axis.get_majorticklabels()]
        result[f"{name}_scale"] = scale(axis)
    return result


def unit(label):
    found = UNIT.search(label or "")
    return found.group(1).strip() if found else None


def scale(axis):
    if is_categorical(axis):
        return "categorical"
    if is_date(axis):
        return "datetime"
    name = axis.get_scale()
    known = ("linear", "log", "symlog", "logit", "function", "functionlog", "asinh")
    return name if name in known else "unknown"


def converter(axis):
    # `converter` before matplotlib 3.10.
    ask = getattr(axis, "get_converter", None)
    return type(ask() if ask else axis.converter).__name__


def is_categorical(axis):
    return converter(axis) == "StrCategoryConverter"


def is_date(axis):
    return "Date" in converter(axis)


def coordinate(axis, value):
    """A place on an axis in the terms of the data."""
    if isinstance(value, str) or hasattr(value, "isoformat"):
        return value
    if is_categorical(axis):
        names = {place: name for name, place in axis.units._mapping.items()} if axis.units else {}
        return names.get(int(value), float(value)) if float(value).is_integer() else float(value)
    if converter(axis) in ("DateConverter", "_SwitchableDateConverter", "ConciseDateConverter"):
        from matplotlib.dates import num2date

        return num2date(float(value)).replace(tzinfo=None)
    try:
        return float(value)
    except (TypeError, ValueError):
        return str(value)


def series_label(artist, fallback):
    label = artist.get_label()
    # matplotlib names nameless series `_child0`.
    return fallback if not label or str(label).startswith("_") else str(label)


def line_of(axes, line):
    # The values as given, so that names and dates stay what they were.
    xs, ys = list(line.get_xdata(orig=True)), list(line.get_ydata(orig=True))
    if len(xs) != len(ys) or any(hasattr(x, "dtype") and x.dtype.kind == "M" for x in xs[:1]):
        xs, ys = list(line.get_xdata(orig=False)), list(line.get_ydata(orig=False))
    points = [[coordinate(axes.xaxis, x), coordinate(axes.yaxis, y)] for x, y in zip(xs, ys)]
    return {"label": series_label(line, f"Line {axes.lines[:].index(line)}"), "points": points}


def cloud(axes, collection, number):
    points = [
        [coordinate(axes.xaxis, x), coordinate(axes.yaxis, y)]
        for x, y in collection.get_offsets().tolist()
    ]
    return {"label": series_label(collection, f"Series {number}"), "points": points}


def bar(axes, container):
    flat = getattr(container, "orientation", "vertical") == "horizontal"
    axis = axes.yaxis if flat else axes.xaxis
    names = tick_names(axis)
    group = series_label(container, "")
    for patch in container.patches:
        if flat:
            middle, value = patch.get_y() + patch.get_height() / 2, patch.get_width()
        else:
            middle, value = patch.get_x() + patch.get_width() / 2, patch.get_height()
        yield {"label": bar_name(axis, names, float(middle)), "group": group, "value": value}


def tick_names(axis):
    """Place → name, on an axis whose ticks were named by hand or by data."""
    formatter = type(axis.get_major_formatter()).__name__
    if formatter not in ("FixedFormatter", "StrCategoryFormatter", "FuncFormatter"):
        return {}
    if is_categorical(axis):
        return {float(place): name for name, place in axis.units._mapping.items()}
    return {
        float(place): label.get_text()
        for place, label in zip(axis.get_majorticklocs(), axis.get_majorticklabels())
        if label.get_text()
    }


def bar_name(axis, names, middle):
    if names:
        nearest = min(names, key=lambda place: abs(place - middle))
        # Bars of a group stand beside the tick they belong to.
        if abs(nearest - middle) <= 0.5:
            return names[nearest]
    value = plain(coordinate(axis, middle))
    return f"{value:g}" if isinstance(value, float) else str(value)


def wedge(patch):
    return {
        "label": series_label(patch, ""),
        # Computed with 32 bits of precision, so that 324 is not quite 324.
        "angle": round(abs(patch.theta2 - patch.theta1), 4),
        "radius": patch.r,
    }


def box(stats):
    return {
        "label": str(stats["label"]), "min": stats["whislo"], "first_quartile": stats["q1"],
        "median": stats["med"], "third_quartile": stats["q3"], "max": stats["whishi"],
        "outliers": list(stats.get("fliers", ())),
    }


def remember_boxes(draw):
    """Wraps `Axes.bxp`: a drawn box plot is only lines, its numbers are gone."""

    @functools.wraps(draw)
    def bxp(axes, bxpstats, *arguments, **options):
        drawn = draw(axes, bxpstats, *arguments, **options)
        known = axes.__dict__.setdefault(BOXES, [])
        for stats in bxpstats:
            known.append({**stats, "label": stats.get("label") or len(known) + 1})
        return drawn

    return bxp


def is_colorbar(axes):
    return getattr(axes, "_colorbar", None) is not None


def text_of(artist):
    return (artist.get_text() or None) if artist is not None else None
