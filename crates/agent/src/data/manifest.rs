//! `datasets.json`: what `load_data` inside the sandbox reads; docs/datasets.md.

use belljar_dataset::{Dataset, Field, Meaning};
use serde_json::{Map, Value, json};

use super::fit::Strategy;
use super::plan::{Part, Plan};
use super::{Format, Item};

const VERSION: u32 = 1;

/// The manifest of a plan.
pub(super) fn manifest(plan: &Plan) -> Value {
    let loaded = plan.parts.iter().filter(|part| part.strategy != Strategy::File);
    let datasets: Vec<Value> = loaded.map(entry).collect();
    json!({ "version": VERSION, "budget": plan.budget, "datasets": datasets })
}

fn entry(part: &Part) -> Value {
    let (origin, item) = (&part.origin, part.item());
    let strategy = match part.strategy {
        Strategy::Whole if part.is_sample() => "sampled",
        Strategy::Whole => "whole",
        _ if part.drawn.is_some() && !part.is_sample() => "converted",
        _ => "lazy",
    };
    let mut entry = json!({
        "name": origin.name,
        "variable": part.variable,
        "path": item.name,
        "format": item.format().word(),
        "strategy": strategy,
        "bytes": origin.bytes,
        "memory": part.peak,
        "sentence": part.sentence(),
        "options": options(item, part.profile.as_ref()),
    });
    if let Some(fields) = entry.as_object_mut() {
        let rows = part.profile.as_ref().map(|profile| profile.rows);
        let rows = part.drawn.as_ref().map(|drawn| drawn.records).or(rows);
        fields.extend(rows.map(|rows| ("rows".into(), rows.into())));
        let as_of = part.profile.as_ref().and_then(|profile| profile.as_of.clone());
        fields.extend(as_of.map(|day| ("as_of".into(), day.into())));
    }
    entry
}

fn options(item: &Item, profile: Option<&Dataset>) -> Value {
    let mut options = Map::new();
    if item.format() == Format::Tsv {
        options.insert("delimiter".into(), "\t".into());
    }
    let Some(profile) = profile else { return options.into() };
    if let Some(dialect) = &profile.dialect {
        options.insert("delimiter".into(), char::from(dialect.delimiter).to_string().into());
    }
    let records = profile.root.item.as_deref().unwrap_or(&profile.root);
    // Read as numbers, they would lose their zeros.
    let is_text = |field: &&Field| field.meaning == Some(Meaning::ZeroPadded);
    let text = records.fields.iter().filter(is_text).map(|field| Value::from(field.name.as_str()));
    if item.format().word() == "csv" {
        options.insert("text".into(), text.collect());
    }
    options.into()
}
