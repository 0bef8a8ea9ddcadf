//! Datasets and what refers to what, as a small drawing.

use std::fmt::Write as _;

use crate::describe::{Dataset, Description};
use crate::relate::{Cardinality, Relationship};

const WIDTH: usize = 250;
const ROW: usize = 22;
const HEAD: usize = 44;
const GAP_X: usize = 130;
const GAP_Y: usize = 32;
const MARGIN: usize = 28;
/// Rows of one box.
const ROWS: usize = 14;

struct Frame<'a> {
    dataset: &'a Dataset,
    /// Paths that are keys or part of a relationship.
    rows: Vec<String>,
    hidden: usize,
    x: usize,
    y: usize,
}

impl Frame<'_> {
    fn height(&self) -> usize {
        HEAD + ROW * (self.rows.len() + usize::from(self.hidden > 0)) + 10
    }

    fn row_y(&self, path: &str) -> usize {
        let place = self.rows.iter().position(|row| row == path).unwrap_or(self.rows.len());
        self.y + HEAD + ROW * place + ROW / 2 + 2
    }
}

impl Description {
    /// One box for each dataset, with its keys and what refers to them.
    pub fn to_svg(&self) -> String {
        let frames = self.frames();
        let right = frames.iter().map(|frame| frame.x + WIDTH).max().unwrap_or(0);
        // What goes around the right edge needs room there.
        let goes_around = |one: &Relationship| {
            let x = |name: &str| {
                frames.iter().find(|frame| frame.dataset.name == name).map(|frame| frame.x)
            };
            x(&one.from.dataset) >= x(&one.to.dataset)
        };
        let is_wider = self.relationships.iter().any(goes_around);
        let width = right + MARGIN + if is_wider { GAP_X } else { 0 };
        let height =
            frames.iter().map(|frame| frame.y + frame.height()).max().unwrap_or(0) + MARGIN;
        let mut out = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" \
             height=\"{height}\" font-family=\"ui-sans-serif, Helvetica, Arial, sans-serif\">\n\
             <defs><marker id=\"to\" viewBox=\"0 0 8 8\" refX=\"7\" refY=\"4\" markerWidth=\"7\" markerHeight=\"7\" \
             orient=\"auto\"><path d=\"M0 0 8 4 0 8Z\" fill=\"#2563a8\"/></marker></defs>\n\
             <rect width=\"{width}\" height=\"{height}\" fill=\"#fbfbf9\"/>\n"
        );
        // Boxes last: a line to a farther one passes behind those between.
        for (number, one) in self.relationships.iter().enumerate() {
            connect(&mut out, &frames, one, number);
        }
        for frame in &frames {
            draw(&mut out, frame);
        }
        out.push_str("</svg>\n");
        out
    }

    /// What is referred to stands right of what refers to it.
    fn frames(&self) -> Vec<Frame<'_>> {
        let mut columns = vec![0usize; self.datasets.len()];
        let place = |name: &str| self.datasets.iter().position(|dataset| dataset.name == name);
        // Circles end this by themselves: no one moves further than there are datasets.
        for _ in 0..self.datasets.len() {
            for one in &self.relationships {
                if let (Some(from), Some(to)) = (place(&one.from.dataset), place(&one.to.dataset))
                    && from != to
                    && columns[to] <= columns[from]
                    && columns[from] + 1 < self.datasets.len()
                {
                    columns[to] = columns[from] + 1;
                }
            }
        }
        let mut next_y = vec![MARGIN; self.datasets.len() + 1];
        let mut frames = Vec::new();
        for (dataset, &column) in self.datasets.iter().zip(&columns) {
            let mut rows = self.rows(dataset);
            let hidden = rows.len().saturating_sub(ROWS);
            rows.truncate(ROWS);
            let x = MARGIN + column * (WIDTH + GAP_X);
            let frame = Frame { dataset, rows, hidden, x, y: next_y[column] };
            next_y[column] += frame.height() + GAP_Y;
            frames.push(frame);
        }
        frames
    }

    fn rows(&self, dataset: &Dataset) -> Vec<String> {
        let mut rows: Vec<String> = Vec::new();
        let mut add = |path: String| {
            if !rows.contains(&path) {
                rows.push(path);
            }
        };
        for one in &self.relationships {
            for side in [&one.to, &one.from] {
                if side.dataset == dataset.name {
                    add(side.path.clone());
                }
            }
        }
        for key in &dataset.keys {
            let path = |column: &String| {
                if key.of.is_empty() { column.clone() } else { format!("{}.{column}", key.of) }
            };
            key.columns.iter().map(path).for_each(&mut add);
        }
        rows
    }
}

fn draw(out: &mut String, frame: &Frame<'_>) {
    let Frame { dataset, x, y, .. } = frame;
    let height = frame.height();
    let name = escaped(&dataset.variable, 26);
    let about = escaped(&format!("{} · {} rows", dataset.format, dataset.rows), 40);
    let _ = writeln!(
        out,
        "<g><rect x=\"{x}\" y=\"{y}\" width=\"{WIDTH}\" height=\"{height}\" rx=\"8\" fill=\"#fff\" stroke=\"#c9ccd1\"/>\
         <text x=\"{}\" y=\"{}\" font-size=\"14\" font-weight=\"600\" fill=\"#1d2530\">{name}</text>\
         <text x=\"{}\" y=\"{}\" font-size=\"11\" fill=\"#6b7480\">{about}</text>\
         <line x1=\"{x}\" y1=\"{}\" x2=\"{}\" y2=\"{}\" stroke=\"#e3e5e8\"/>",
        x + 12,
        y + 19,
        x + 12,
        y + 35,
        y + HEAD,
        x + WIDTH,
        y + HEAD
    );
    for (place, row) in frame.rows.iter().enumerate() {
        let text_y = y + HEAD + ROW * place + 17;
        let is_key = is_key(dataset, row);
        let (weight, color) = if is_key { ("600", "#1d2530") } else { ("400", "#3c4653") };
        let _ = writeln!(
            out,
            "<text x=\"{}\" y=\"{text_y}\" font-size=\"12\" font-weight=\"{weight}\" fill=\"{color}\">{}</text>",
            x + 12,
            escaped(row, 30)
        );
        if is_key {
            let _ = writeln!(
                out,
                "<text x=\"{}\" y=\"{text_y}\" font-size=\"10\" text-anchor=\"end\" fill=\"#9a6b00\">key</text>",
                x + WIDTH - 12
            );
        }
    }
    if frame.hidden > 0 {
        let text_y = y + HEAD + ROW * frame.rows.len() + 17;
        let _ = writeln!(
            out,
            "<text x=\"{}\" y=\"{text_y}\" font-size=\"11\" fill=\"#6b7480\">… {} more</text>",
            x + 12,
            frame.hidden
        );
    }
    out.push_str("</g>\n");
}

fn is_key(dataset: &Dataset, path: &str) -> bool {
    dataset.keys.iter().any(|key| {
        key.columns.iter().any(|column| {
            if key.of.is_empty() { column == path } else { *path == format!("{}.{column}", key.of) }
        })
    })
}

fn connect(out: &mut String, frames: &[Frame<'_>], one: &Relationship, number: usize) {
    let find = |name: &str| frames.iter().find(|frame| frame.dataset.name == name);
    let (Some(from), Some(to)) = (find(&one.from.dataset), find(&one.to.dataset)) else { return };
    let (from_y, to_y) = (from.row_y(&one.from.path), to.row_y(&one.to.path));
    let cardinality = match one.cardinality {
        Cardinality::OneToOne => "1:1",
        Cardinality::ManyToOne => "N:1",
    };
    let label = format!("{cardinality} · {:.0} %", one.matched * 100.0);
    let bend = GAP_X / 2 - 8 * (number % 4);
    let (path, label_x, label_y, anchor) = if from.x < to.x {
        let (x1, x2) = (from.x + WIDTH, to.x);
        let curve =
            format!("M{x1} {from_y}C{} {from_y} {} {to_y} {x2} {to_y}", x1 + bend, x2 - bend);
        (curve, (x1 + x2) / 2, usize::midpoint(from_y, to_y) - 6, "middle")
    } else {
        // Beside itself, or back to the left: around the right edge.
        let (x1, x2) = (from.x + WIDTH, to.x + WIDTH);
        let far = x1.max(x2) + bend;
        let curve = format!("M{x1} {from_y}C{far} {from_y} {far} {to_y} {x2} {to_y}");
        (curve, x1.max(x2) + bend, usize::midpoint(from_y, to_y) + 4, "start")
    };
    let _ = writeln!(
        out,
        "<path d=\"{path}\" fill=\"none\" stroke=\"#2563a8\" stroke-width=\"1.4\" marker-end=\"url(#to)\"/>\
         <text x=\"{label_x}\" y=\"{label_y}\" font-size=\"10.5\" text-anchor=\"{anchor}\" fill=\"#2563a8\" \
         stroke=\"#fbfbf9\" stroke-width=\"3\" paint-order=\"stroke\">{label}</text>"
    );
}

/// Shortened, and with nothing that XML would take for its own.
fn escaped(text: &str, most: usize) -> String {
    let mut chars = text.chars();
    let mut out = String::new();
    for c in chars.by_ref().take(most) {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            c if c.is_control() => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    if chars.next().is_some() {
        out.push('…');
    }
    out
}
