"""The figures of `measure` as a drawing, in the style of `belljar bench`."""

WIDTH = 800
# Where labels end and bars begin; room for the numbers behind the longest bar.
LEFT, RIGHT = 230, 170
ROW = 24
INK, PALE, AIM = "#1f2933", "#616e7c", "#c2410c"
OURS, THEIRS = "#2b6cb0", "#dd9323"


def text(x, y, words, anchor="start", fill=INK, more=""):
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{fill}"{more}>{words}</text>'


def bar(middle, label, seconds, cpu, color, scale):
    width = seconds * scale
    return [
        text(LEFT - 8, middle + 4.5, label, "end"),
        f'<rect x="{LEFT}" y="{middle - 8:.1f}" width="{width:.1f}" height="16" fill="{color}"/>',
        text(LEFT + width + 7, middle + 4.5, f"{seconds:.2f} s, CPU {cpu:.2f} s"),
    ]


def panel(case, top):
    """One file: both bars on a scale of its own, and a line at the aim."""
    cpu = {name: case[name]["user_s"] + case[name]["system_s"] for name in ("describe", "duckdb")}
    longest = max(case["describe"]["wall_s"], case["duckdb"]["wall_s"], case["aim_s"])
    scale = (WIDTH - LEFT - RIGHT) / longest
    cores = "one core" if case["cores"] == 1 else f"{case['cores']} cores"
    at = LEFT + case["aim_s"] * scale
    return [
        text(16, top, f"{case['file']}, {case['bytes'] / 1e6:,.0f} MB, {cores}", more=' font-weight="bold"'),
        *bar(top + 20, "belljar dataset describe", case["describe"]["wall_s"], cpu["describe"], OURS, scale),
        *bar(top + 20 + ROW, "DuckDB SUMMARIZE", case["duckdb"]["wall_s"], cpu["duckdb"], THEIRS, scale),
        f'<line x1="{at:.1f}" y1="{top + 7}" x2="{at:.1f}" y2="{top + 33}" stroke="{AIM}" stroke-width="2"/>',
        text(at, top + 2, f"aim {case['aim_s']:g} s", "middle", AIM, ' font-size="11"'),
    ]


def draw(report):
    step = 2 * ROW + 44
    height = 84 + step * len(report["files"])
    note = f"best round on the clock; DuckDB {report['duckdb']}; {report['cores']} cores, load before {report['load']:.1f}"
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" '
        f'font-family="sans-serif" font-size="13" fill="{INK}">',
        f'<rect width="{WIDTH}" height="{height}" fill="#fcfcfa"/>',
        text(16, 28, "Datasets", more=' font-size="17" font-weight="bold"'),
        text(16, 48, note, fill=PALE),
    ]
    for number, case in enumerate(report["files"]):
        lines += panel(case, 84 + number * step)
    return "\n".join([*lines, "</svg>", ""])
