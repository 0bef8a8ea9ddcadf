//! `datasets.json`: what `load_data` inside the sandbox reads; docs/datasets.md.

use belljar_dataset::{Compression, Dataset, Encoding, Field, Meaning, What};
use belljar_journal::event::Guards;
use serde_json::{Map, Value, json};

use super::fit::Strategy;
use super::plan::{Part, Plan};
use super::{Format, compression_of, estimate};

const VERSION: u32 = 1;

/// The manifest of a plan.
pub(super) fn manifest(plan: &Plan) -> Value {
    let loaded = plan.parts.iter().filter(|part| part.strategy != Strategy::File);
    let datasets: Vec<Value> = loaded.map(entry).collect();
    let mut manifest = json!({ "version": VERSION, "budget": plan.budget, "datasets": datasets });
    if let Some(guards) = guards(plan.guards) {
        manifest["guards"] = guards;
    }
    manifest
}

/// The guards inside the interpreter; none: all of them are on. Runtimes of older templates read
/// a boolean.
fn guards(Guards { joins, dates, .. }: Guards) -> Option<Value> {
    match (joins, dates) {
        (true, true) => None,
        (false, false) => Some(false.into()),
        _ => Some(json!({ "joins": joins, "dates": dates })),
    }
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
        "format": part.format().word(),
        "strategy": strategy,
        "bytes": origin.bytes,
        "memory": part.peak,
        "sentence": part.sentence(),
        "options": options(part),
    });
    if let Some(fields) = entry.as_object_mut() {
        let rows = part.profile.as_ref().map(|profile| profile.rows);
        let rows = part.drawn.as_ref().map(|drawn| drawn.records).or(rows);
        fields.extend(rows.map(|rows| ("rows".into(), rows.into())));
        let as_of = part.profile.as_ref().and_then(|profile| profile.as_of.clone());
        fields.extend(as_of.map(|day| ("as_of".into(), day.into())));
        fields.extend(sample(part).map(|sample| ("sample".into(), sample)));
    }
    entry
}

/// How a sample was drawn; none: it is no sample.
fn sample(part: &Part) -> Option<Value> {
    let drawn = part.drawn.as_ref().filter(|_| part.is_sample())?;
    let key = part.key.as_ref().map(|key| key.name.as_str());
    let (one_in, together) = (estimate::one_in(part), &part.together);
    Some(json!({
        "one_in": one_in,
        "key": key,
        "most": drawn.most,
        "together": together,
        "rows": drawn.kept,
    }))
}

/// How the file is to be read. What a profile shows is said only where readers would not do it by
/// themselves.
fn options(part: &Part) -> Value {
    let mut options = Map::new();
    let format = part.format();
    if part.item().format() == Format::Tsv {
        options.insert("delimiter".into(), "\t".into());
    }
    let Some(profile) = part.profile.as_ref() else {
        options.extend(compression(compression_of(&part.item().name)));
        return options.into();
    };
    if part.drawn.is_none() {
        options.extend(compression(profile.compression));
    }
    if profile.encoding != Encoding::Utf8 {
        options.insert("encoding".into(), profile.encoding.codec().into());
    } else if profile.problems.iter().any(|problem| problem.what == What::NotUtf8) {
        options.insert("encoding_errors".into(), "replace".into());
    }
    if format.word() == "csv" {
        table(&mut options, profile);
    }
    if let Some(sheet) = profile.sheet.as_ref().filter(|_| format == Format::Excel) {
        let columns = names(profile, |_| true);
        options.insert("columns".into(), columns);
        options.insert(
            "sheet".into(),
            json!({
                "name": sheet.name,
                "first_row": sheet.first_row,
                "first_column": sheet.first_column,
            }),
        );
    }
    options.into()
}

fn compression(by: Option<Compression>) -> Option<(String, Value)> {
    Some(("compression".into(), by?.to_string().into()))
}

fn table(options: &mut Map<String, Value>, profile: &Dataset) {
    if let Some(dialect) = &profile.dialect {
        options.insert("delimiter".into(), char::from(dialect.delimiter).to_string().into());
        if dialect.is_renamed {
            options.insert("columns".into(), names(profile, |_| true));
        }
        if !dialect.has_header {
            options.insert("header".into(), false.into());
        }
    }
    // Read as numbers, they would lose their zeros; and what is partly text is text.
    let is_text = |field: &Field| match field.meaning {
        Some(Meaning::ZeroPadded) => true,
        Some(Meaning::NumericText) => field.types.string > 0,
        _ => false,
    };
    options.insert("text".into(), names(profile, is_text));
    if profile.root.fields.iter().any(|field| field.has_decimal_commas) {
        let commas = names(profile, |field| field.has_decimal_commas);
        options.insert("decimal_commas".into(), commas);
    }
}

/// The names of the columns of a table that are so.
fn names(profile: &Dataset, is_so: impl Fn(&Field) -> bool) -> Value {
    let fields = profile.root.fields.iter().filter(|field| is_so(field));
    fields.map(|field| Value::from(field.name.as_str())).collect()
}
