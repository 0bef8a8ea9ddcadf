//! Draws a workflow as SVG: layers from left to right, without references to anything outside.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use crate::definition::Definition;
use crate::state::{State, StepStatus};

const WIDTH: usize = 168;
const HEIGHT: usize = 52;
const GAP_X: usize = 64;
const GAP_Y: usize = 22;
const MARGIN: usize = 20;

const STYLE: &str = "\
.bg{fill:#fff}.box{fill:#f4f6fa;stroke:#8b98ad;stroke-width:1.2}.name{fill:#17202e;font:600 13px \
system-ui,sans-serif}.kind{fill:#5a6679;font:11px system-ui,sans-serif}.edge{fill:none;stroke:#8b98ad;\
stroke-width:1.4}.tip{fill:#8b98ad}.if{stroke-dasharray:4 3}.done{stroke:#2b8a57}.failed{stroke:#c43d3d}\
.running{stroke:#2f6fd0;stroke-width:2}.skipped{stroke-dasharray:4 3}\
@media(prefers-color-scheme:dark){.bg{fill:#12161d}.box{fill:#1d2430;stroke:#66748a}.name{fill:#e8ecf3}\
.kind{fill:#9aa6b8}.edge{stroke:#66748a}.tip{fill:#66748a}.done{stroke:#4cba80}.failed{stroke:#ef6b6b}\
.running{stroke:#6ea3f2}}";

/// The layer of each step: one more than the last of those that it needs.
fn layers(definition: &Definition) -> BTreeMap<&str, usize> {
    let mut layers: BTreeMap<&str, usize> = BTreeMap::new();
    // Each round settles at least one layer; a cycle would settle none.
    for _ in 0..definition.steps.len() {
        for (name, step) in &definition.steps {
            let needs = step.needs();
            let known: Vec<_> = needs.iter().map(|it| layers.get(it.as_str()).copied()).collect();
            if let Some(known) = known.into_iter().collect::<Option<Vec<_>>>() {
                layers.insert(name, known.into_iter().max().map_or(0, |last| last + 1));
            }
        }
    }
    layers
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// Returns the drawing; with a state, boxes show how far their steps came.
pub fn graph(definition: &Definition, state: Option<&State>) -> String {
    let layers = layers(definition);
    let mut columns: BTreeMap<usize, Vec<&str>> = BTreeMap::new();
    for (name, layer) in &layers {
        columns.entry(*layer).or_default().push(name);
    }
    let tallest = columns.values().map(Vec::len).max().unwrap_or(0).max(1);
    let width = 2 * MARGIN + columns.len() * (WIDTH + GAP_X) - GAP_X.min(columns.len() * GAP_X);
    let height = 2 * MARGIN + tallest * (HEIGHT + GAP_Y) - GAP_Y;
    let mut places = BTreeMap::new();
    for (layer, names) in &columns {
        let taken = names.len() * (HEIGHT + GAP_Y) - GAP_Y;
        for (row, name) in names.iter().enumerate() {
            let y = (height - taken) / 2 + row * (HEIGHT + GAP_Y);
            places.insert(*name, (MARGIN + layer * (WIDTH + GAP_X), y));
        }
    }
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" \
         width=\"{width}\" height=\"{height}\" role=\"img\"><title>{}</title><style>{STYLE}</style>\
         <rect class=\"bg\" width=\"{width}\" height=\"{height}\"/>",
        escaped(&definition.name)
    );
    for (name, step) in &definition.steps {
        let Some(&(x, y)) = places.get(name.as_str()) else { continue };
        for needed in step.needs() {
            let Some(&(from_x, from_y)) = places.get(needed.as_str()) else { continue };
            let (start, end) = (from_x + WIDTH, x - 6);
            let (from, to, half) = (from_y + HEIGHT / 2, y + HEIGHT / 2, (end - start) / 2);
            let class = if step.when.is_empty() { "edge" } else { "edge if" };
            let _ = write!(
                svg,
                "<path class=\"{class}\" d=\"M{start} {from}C{} {from} {} {to} {end} {to}\"/>\
                 <path class=\"tip\" d=\"M{} {to}l-7 -4v8z\"/>",
                start + half,
                end - half,
                x,
            );
        }
    }
    for (name, (x, y)) in &places {
        let Some(step) = definition.steps.get(*name) else { continue };
        let mut kind = step.kind.as_str().to_owned();
        if step.for_each.is_some() {
            kind.push_str(" for each");
        }
        let status = state.map(|state| state.status(name));
        if let Some(status) = status {
            let _ = write!(kind, ", {}", status.as_str());
        }
        let class = match status {
            None | Some(StepStatus::Waiting) => "",
            Some(status) => status.as_str(),
        };
        let middle = x + WIDTH / 2;
        let _ = write!(
            svg,
            "<rect class=\"box {class}\" x=\"{x}\" y=\"{y}\" width=\"{WIDTH}\" height=\"{HEIGHT}\" \
             rx=\"9\"/><text class=\"name\" x=\"{middle}\" y=\"{}\" text-anchor=\"middle\">{}</text>\
             <text class=\"kind\" x=\"{middle}\" y=\"{}\" text-anchor=\"middle\">{}</text>",
            y + 23,
            escaped(&shortened(name)),
            y + 40,
            escaped(&kind),
        );
    }
    svg.push_str("</svg>\n");
    svg
}

fn shortened(name: &str) -> String {
    match name.char_indices().nth(20) {
        Some((end, _)) => format!("{}…", &name[..end]),
        None => name.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::validate::check;

    #[test]
    fn branches_stand_below_each_other_and_nothing_is_loaded() {
        let text = r#"
            name = "fan"
            [steps.a]
            kind = "call"
            call = { script = "true" }
            [steps.b]
            kind = "call"
            call = { script = "true" }
            after = ["a"]
            [steps.c]
            kind = "call"
            call = { script = "true" }
            after = ["a"]
            when = "steps.a.answer == 'yes'"
            [steps.d]
            kind = "call"
            call = { script = "true" }
            after = ["b", "c"]
        "#;
        let definition = check(text).unwrap();
        let layers = layers(&definition);
        assert_eq!(layers, BTreeMap::from([("a", 0), ("b", 1), ("c", 1), ("d", 2)]));
        let svg = graph(&definition, None);
        assert_eq!(svg.matches("<rect class=\"box").count(), 4);
        assert_eq!(svg.matches("class=\"edge\"").count(), 3);
        assert_eq!(svg.matches("class=\"edge if\"").count(), 1);
        for outside in ["href", "url(", "<script", "<image", "@import"] {
            assert!(!svg.contains(outside), "{outside}");
        }
        assert!(svg.contains("prefers-color-scheme:dark"));
        assert_eq!(escaped("<a>&\""), "&lt;a&gt;&amp;&quot;");
    }
}
