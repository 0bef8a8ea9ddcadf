//! Small drawings of figures for the documentation, as SVG written by hand.
//!
//! A [`Figure`] is a title, a note and panels below each other. Nothing here
//! measures; the same numbers always give the same text.

use std::fmt::Write as _;

const WIDTH: f64 = 800.0;
/// Where labels end and bars begin.
const LEFT: f64 = 230.0;
/// Room for the numbers behind the longest bar.
const RIGHT: f64 = 110.0;
const ROW: f64 = 30.0;
const INK: &str = "#1f2933";
const PALE: &str = "#616e7c";
const GRID: &str = "#e4e7eb";
const AIM: &str = "#c2410c";
const COLORS: [&str; 4] = ["#2b6cb0", "#dd9323", "#4d9078", "#8a5a9e"];

#[derive(Debug)]
pub(super) struct Figure {
    pub(super) title: String,
    pub(super) note: String,
    pub(super) panels: Vec<Panel>,
}

#[derive(Debug)]
pub(super) enum Panel {
    Bars(Bars),
    Stacks(Stacks),
    Curve(Curve),
}

/// One bar a row, with a thin line to what the slow ones took.
#[derive(Debug)]
pub(super) struct Bars {
    pub(super) heading: String,
    pub(super) rows: Vec<Bar>,
}

#[derive(Debug)]
pub(super) struct Bar {
    pub(super) label: String,
    pub(super) value: f64,
    /// Where the thin line ends.
    pub(super) tail: Option<f64>,
    /// What was hoped for.
    pub(super) aim: Option<f64>,
}

/// Bars made of parts that add up.
#[derive(Debug)]
pub(super) struct Stacks {
    pub(super) heading: String,
    pub(super) parts: Vec<&'static str>,
    pub(super) rows: Vec<(String, Vec<f64>)>,
}

/// One quantity over another, from zero.
#[derive(Debug)]
pub(super) struct Curve {
    pub(super) heading: String,
    pub(super) below: String,
    pub(super) points: Vec<(f64, f64)>,
}

impl Figure {
    pub(super) fn svg(&self) -> String {
        let heights = self.panels.iter().map(Panel::height);
        let height = 64.0 + heights.sum::<f64>() + 12.0;
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" \
             width=\"{WIDTH}\" height=\"{height}\" font-family=\"sans-serif\" font-size=\"13\" \
             fill=\"{INK}\">\n\
             <rect width=\"{WIDTH}\" height=\"{height}\" fill=\"#fcfcfa\"/>\n"
        );
        let title = escape(&self.title);
        let _ = writeln!(
            svg,
            "<text x=\"16\" y=\"28\" font-size=\"17\" font-weight=\"bold\">{title}</text>"
        );
        text(&mut svg, 16.0, 48.0, "start", PALE, &self.note);
        let mut top = 64.0;
        for panel in &self.panels {
            panel.draw(&mut svg, top);
            top += panel.height();
        }
        svg.push_str("</svg>\n");
        svg
    }
}

impl Panel {
    fn height(&self) -> f64 {
        let rows = match self {
            Self::Bars(bars) => bars.rows.len(),
            Self::Stacks(stacks) => stacks.rows.len() + 1,
            Self::Curve(_) => return 300.0,
        };
        30.0 + precise(rows) * ROW + 34.0
    }

    fn draw(&self, svg: &mut String, top: f64) {
        match self {
            Self::Bars(bars) => bars.draw(svg, top),
            Self::Stacks(stacks) => stacks.draw(svg, top),
            Self::Curve(curve) => curve.draw(svg, top),
        }
    }
}

impl Bars {
    fn draw(&self, svg: &mut String, top: f64) {
        heading(svg, top, &self.heading);
        let all = || {
            let of = |bar: &Bar| [Some(bar.value), bar.tail, bar.aim].into_iter().flatten();
            self.rows.iter().flat_map(of).collect::<Vec<f64>>()
        };
        let axis = Axis::over(&all(), LEFT, WIDTH - RIGHT);
        let first = top + 30.0;
        let bottom = first + precise(self.rows.len()) * ROW;
        axis.grid(svg, first - 4.0, bottom);
        for (row, bar) in self.rows.iter().enumerate() {
            let middle = first + (precise(row) + 0.5) * ROW;
            text(svg, LEFT - 8.0, middle + 4.5, "end", INK, &bar.label);
            let end = axis.at(bar.value);
            rectangle(svg, (LEFT, middle - 8.0), (end - LEFT, 16.0), COLORS[0]);
            let mut behind = end;
            if let Some(tail) = bar.tail {
                behind = behind.max(axis.at(tail));
                line(svg, (end, middle), (behind, middle), INK, "1.2");
                line(svg, (behind, middle - 5.0), (behind, middle + 5.0), INK, "1.2");
            }
            if let Some(aim) = bar.aim {
                let at = axis.at(aim);
                line(svg, (at, middle - 13.0), (at, middle + 13.0), AIM, "2");
            }
            let said = match bar.tail {
                Some(tail) => format!("{} – {}", short(bar.value), short(tail)),
                None => short(bar.value),
            };
            // Beyond an aim that is close behind, so that it stays readable.
            let aim = bar.aim.map(|aim| axis.at(aim)).filter(|at| *at > behind - 4.0);
            let clear = aim.filter(|at| *at < behind + 100.0).unwrap_or(behind);
            text(svg, clear + 7.0, middle + 4.5, "start", INK, &said);
        }
    }
}

impl Stacks {
    fn draw(&self, svg: &mut String, top: f64) {
        heading(svg, top, &self.heading);
        let mut along = LEFT;
        for (part, color) in self.parts.iter().zip(COLORS) {
            rectangle(svg, (along, top + 34.0), (12.0, 12.0), color);
            text(svg, along + 17.0, top + 44.5, "start", INK, part);
            along += 40.0 + 7.0 * precise(part.chars().count());
        }
        let sums: Vec<f64> = self.rows.iter().map(|(_, parts)| parts.iter().sum()).collect();
        // Each part is said behind the bar, so that takes more room.
        let axis = Axis::linear(&sums, LEFT, WIDTH - 1.5 * RIGHT);
        let first = top + 30.0 + ROW;
        axis.grid(svg, first - 4.0, first + precise(self.rows.len()) * ROW);
        for (row, (label, parts)) in self.rows.iter().enumerate() {
            let middle = first + (precise(row) + 0.5) * ROW;
            text(svg, LEFT - 8.0, middle + 4.5, "end", INK, label);
            let mut sum = 0.0;
            for (part, color) in parts.iter().zip(COLORS) {
                let (from, to) = (axis.at(sum), axis.at(sum + part));
                rectangle(svg, (from, middle - 8.0), (to - from, 16.0), color);
                sum += part;
            }
            let said = parts.iter().map(|part| short(*part)).collect::<Vec<_>>().join(" + ");
            text(svg, axis.at(sum) + 7.0, middle + 4.5, "start", INK, &said);
        }
    }
}

impl Curve {
    fn draw(&self, svg: &mut String, top: f64) {
        heading(svg, top, &self.heading);
        let (left, right, upper, lower) = (70.0, WIDTH - 40.0, top + 34.0, top + 250.0);
        let across: Vec<f64> = self.points.iter().map(|(x, _)| *x).collect();
        let up: Vec<f64> = self.points.iter().map(|(_, y)| *y).collect();
        let (across, up) = (Axis::linear(&across, left, right), Axis::linear(&up, lower, upper));
        across.grid(svg, upper, lower);
        for tick in up.ticks() {
            let at = up.at(tick);
            line(svg, (left, at), (right, at), GRID, "1");
            text(svg, left - 8.0, at + 4.5, "end", PALE, &short(tick));
        }
        let path: Vec<String> = self
            .points
            .iter()
            .map(|(x, y)| format!("{:.1},{:.1}", across.at(*x), up.at(*y)))
            .collect();
        let _ = writeln!(
            svg,
            "<polyline points=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"2.5\"/>",
            path.join(" "),
            COLORS[0]
        );
        text(svg, (left + right) / 2.0, lower + 36.0, "middle", PALE, &self.below);
    }
}

/// Values to places.
#[derive(Debug)]
struct Axis {
    scale: Scale,
    from: f64,
    to: f64,
    start: f64,
    end: f64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Scale {
    Linear,
    Log,
}

impl Axis {
    /// Logarithmic when the small ones could not be seen otherwise.
    fn over(values: &[f64], start: f64, end: f64) -> Self {
        let linear = Self::linear(values, start, end);
        let least = values.iter().copied().filter(|v| *v > 0.0).fold(f64::INFINITY, f64::min);
        if !least.is_finite() || linear.to / least < 40.0 {
            return linear;
        }
        // From a round number below the smallest, so that it has a bar too.
        let from = 10f64.powf(least.log10().floor());
        let from = if least / from < 1.5 { from / 10.0 } else { from };
        Self { scale: Scale::Log, from, ..linear }
    }

    fn linear(values: &[f64], start: f64, end: f64) -> Self {
        let most = values.iter().copied().fold(0.0, f64::max);
        let to = if most > 0.0 { most } else { 1.0 };
        Self { scale: Scale::Linear, from: 0.0, to, start, end }
    }

    fn at(&self, value: f64) -> f64 {
        let part = match self.scale {
            Scale::Linear => (value - self.from) / (self.to - self.from),
            Scale::Log => {
                let value = value.max(self.from);
                (value / self.from).log10() / (self.to / self.from).log10()
            }
        };
        self.start + part * (self.end - self.start)
    }

    fn ticks(&self) -> Vec<f64> {
        match self.scale {
            Scale::Linear => {
                let rough = self.to / 5.0;
                let power = 10f64.powf(rough.log10().floor());
                let step = [1.0, 2.0, 5.0, 10.0].map(|times| times * power);
                let step = step.into_iter().find(|step| *step >= rough).unwrap_or(rough);
                multiples(step, self.to, |n| n * step)
            }
            Scale::Log => {
                multiples(1.0, (self.to / self.from).log10() + 1e-9, |n| self.from * 10f64.powf(n))
            }
        }
    }

    fn grid(&self, svg: &mut String, top: f64, bottom: f64) {
        for tick in self.ticks() {
            let at = self.at(tick);
            line(svg, (at, top), (at, bottom), GRID, "1");
            text(svg, at, bottom + 17.0, "middle", PALE, &short(tick));
        }
    }
}

/// `of(0)`, `of(1)` and so on, as many as there are steps in `whole`.
fn multiples(step: f64, whole: f64, of: impl Fn(f64) -> f64) -> Vec<f64> {
    let counts = (0..20u32).map(f64::from);
    counts.take_while(|n| n * step <= whole).map(of).collect()
}

fn precise(count: usize) -> f64 {
    f64::from(u32::try_from(count).unwrap_or(u32::MAX))
}

/// Three digits, as many as a reader takes in.
fn short(value: f64) -> String {
    let decimals = match value.abs() {
        size if size >= 99.95 || size == 0.0 => 0,
        size if size >= 9.995 => 1,
        size if size >= 0.01 => 2,
        _ => 3,
    };
    let text = format!("{value:.decimals$}");
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text,
    }
}

fn heading(svg: &mut String, top: f64, words: &str) {
    let _ = writeln!(
        svg,
        "<text x=\"16\" y=\"{:.1}\" font-weight=\"bold\">{}</text>",
        top + 18.0,
        escape(words)
    );
}

fn text(svg: &mut String, x: f64, y: f64, anchor: &str, color: &str, words: &str) {
    let words = escape(words);
    let _ = writeln!(
        svg,
        "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\" fill=\"{color}\">{words}</text>"
    );
}

fn rectangle(svg: &mut String, (x, y): (f64, f64), (width, height): (f64, f64), color: &str) {
    // Thinner than this is invisible.
    let width = width.max(1.0);
    let _ = writeln!(
        svg,
        "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\" \
         fill=\"{color}\"/>"
    );
}

fn line(svg: &mut String, from: (f64, f64), to: (f64, f64), color: &str, width: &str) {
    let _ = writeln!(
        svg,
        "<line x1=\"{:.1}\" y1=\"{:.1}\" x2=\"{:.1}\" y2=\"{:.1}\" stroke=\"{color}\" \
         stroke-width=\"{width}\"/>",
        from.0, from.1, to.0, to.1
    );
}

fn escape(words: &str) -> String {
    words.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bar(label: &str, value: f64, tail: Option<f64>) -> Bar {
        Bar { label: label.to_owned(), value, tail, aim: None }
    }

    #[test]
    fn a_small_figure_is_this_text() {
        let rows = vec![bar("a < b", 1.0, Some(2.0))];
        let bars = Bars { heading: "ms".into(), rows };
        let figure =
            Figure { title: "T".into(), note: "n".into(), panels: vec![Panel::Bars(bars)] };
        let lines: Vec<String> = figure.svg().lines().map(str::to_owned).collect();
        assert!(lines[0].contains("viewBox=\"0 0 800 170\""), "{}", lines[0]);
        let label = "<text x=\"222.0\" y=\"113.5\" text-anchor=\"end\" fill=\"#1f2933\">\
                     a &lt; b</text>";
        assert!(lines.iter().any(|line| line == label), "{lines:#?}");
        let drawn: Vec<&String> = lines.iter().filter(|line| line.contains("#2b6cb0")).collect();
        let half = "<rect x=\"230.0\" y=\"101.0\" width=\"230.0\" height=\"16.0\" \
                    fill=\"#2b6cb0\"/>";
        assert_eq!(drawn, [half]);
        assert_eq!(lines.last().map(String::as_str), Some("</svg>"));
    }

    #[test]
    fn an_axis_is_logarithmic_when_the_small_would_vanish() {
        let near = Axis::over(&[1.0, 30.0], 0.0, 100.0);
        assert_eq!((near.scale, near.ticks()), (Scale::Linear, vec![0.0, 10.0, 20.0, 30.0]));
        let far = Axis::over(&[2.0, 1000.0], 0.0, 100.0);
        assert_eq!((far.scale, far.ticks()), (Scale::Log, vec![1.0, 10.0, 100.0, 1000.0]));
        assert!((far.at(10.0) - 100.0 / 3.0).abs() < 1e-9);
    }

    #[test]
    fn numbers_have_three_digits() {
        let cases = [(0.0, "0"), (0.123, "0.12"), (1.5, "1.5"), (12.34, "12.3"), (1234.5, "1234")];
        for (value, want) in cases {
            assert_eq!(short(value), want);
        }
    }
}
