//! Elements and attributes that draw.

pub(super) const ELEMENTS: &[&str] = &[
    "svg",
    "g",
    "defs",
    "symbol",
    "use",
    "path",
    "rect",
    "circle",
    "ellipse",
    "line",
    "polyline",
    "polygon",
    "text",
    "tspan",
    "textPath",
    "title",
    "desc",
    "clipPath",
    "mask",
    "linearGradient",
    "radialGradient",
    "stop",
    "pattern",
    "marker",
    "image",
];

#[rustfmt::skip]
pub(super) const ATTRIBUTES: &[&str] = &[
    "id", "class", "style", "href", "xml:space", "version",
    // Geometry.
    "x", "y", "x1", "y1", "x2", "y2", "cx", "cy", "r", "rx", "ry", "fx", "fy", "dx", "dy", "d",
    "points", "width", "height", "viewBox", "preserveAspectRatio", "transform", "rotate", "offset",
    "pathLength", "refX", "refY", "orient", "markerWidth", "markerHeight", "markerUnits",
    "gradientUnits", "gradientTransform", "spreadMethod", "patternUnits", "patternContentUnits",
    "patternTransform", "clipPathUnits", "maskUnits", "maskContentUnits", "startOffset",
    "textLength", "lengthAdjust",
    // Lines and areas.
    "fill", "fill-opacity", "fill-rule", "stroke", "stroke-width", "stroke-opacity",
    "stroke-linecap", "stroke-linejoin", "stroke-miterlimit", "stroke-dasharray",
    "stroke-dashoffset", "opacity", "color", "stop-color", "stop-opacity", "clip-path", "clip-rule",
    "mask", "marker-start", "marker-mid", "marker-end", "visibility", "display", "overflow",
    "vector-effect", "paint-order", "shape-rendering", "image-rendering",
    // Letters.
    "font", "font-family", "font-size", "font-style", "font-weight", "font-variant", "font-stretch",
    "letter-spacing", "word-spacing", "text-anchor", "text-decoration", "text-rendering",
    "dominant-baseline", "alignment-baseline", "baseline-shift", "writing-mode", "direction",
    "unicode-bidi",
];
