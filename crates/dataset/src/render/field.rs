//! Fields, with as much detail as there is room for.

use std::fmt::Write as _;

use super::{percent, printable, records as records_of, short, thousands};
use crate::describe::{Dataset, DateZone, Field, Meaning};

/// How much is said.
#[derive(Debug, Clone, Copy)]
pub(super) struct Detail {
    samples: usize,
    values: usize,
    quantiles: bool,
    /// Fields that fewer objects have are left out, below the records.
    presence: f64,
    /// Objects deeper than this are only counted.
    depth: usize,
    /// Fields of one object.
    fields: usize,
}

/// From everything to the least: rarely present fields go before whole objects.
#[rustfmt::skip]
pub(super) const LADDER: [Detail; 13] = [
    Detail { samples: 3, values: 24, quantiles: true, presence: 0.0, depth: 32, fields: 1024 },
    Detail { samples: 1, values: 24, quantiles: true, presence: 0.0, depth: 32, fields: 512 },
    Detail { samples: 1, values: 12, quantiles: false, presence: 0.0, depth: 32, fields: 256 },
    Detail { samples: 0, values: 8, quantiles: false, presence: 0.0, depth: 12, fields: 128 },
    Detail { samples: 0, values: 6, quantiles: false, presence: 0.0, depth: 8, fields: 48 },
    Detail { samples: 0, values: 6, quantiles: false, presence: 0.0, depth: 8, fields: 24 },
    Detail { samples: 0, values: 2, quantiles: false, presence: 0.0, depth: 8, fields: 16 },
    Detail { samples: 0, values: 6, quantiles: false, presence: 0.3, depth: 8, fields: 96 },
    Detail { samples: 0, values: 4, quantiles: false, presence: 0.8, depth: 6, fields: 64 },
    Detail { samples: 0, values: 0, quantiles: false, presence: 0.95, depth: 4, fields: 40 },
    Detail { samples: 0, values: 0, quantiles: false, presence: 1.0, depth: 2, fields: 24 },
    Detail { samples: 0, values: 0, quantiles: false, presence: 1.0, depth: 1, fields: 12 },
    Detail { samples: 0, values: 0, quantiles: false, presence: 1.0, depth: 0, fields: 6 },
];

/// `referring` are paths that are part of a relationship: never left out.
pub(super) fn records(out: &mut String, dataset: &Dataset, referring: &[&str], detail: &Detail) {
    let keys: Vec<String> = dataset
        .keys
        .iter()
        .flat_map(|key| key.columns.iter().map(|column| joined(&key.of, column)))
        .collect();
    let important: Vec<&str> =
        keys.iter().map(String::as_str).chain(referring.iter().copied()).collect();
    let writer = Writer { detail, important };
    let record = records_of(dataset);
    out.push_str(" Structure of each record: ");
    writer.value(out, record, "", 0);
    out.push('\n');
}

struct Writer<'a> {
    detail: &'a Detail,
    important: Vec<&'a str>,
}

fn joined(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
}

impl Writer<'_> {
    fn value(&self, out: &mut String, field: &Field, path: &str, depth: usize) {
        let types = field.types;
        let mut said: Vec<String> = Vec::new();
        let scalars = types.int + types.float + types.string + types.bool;
        if scalars > 0 {
            said.push(self.scalar(field));
        }
        if types.object > 0 {
            let mut text = String::new();
            self.object(&mut text, field, path, depth);
            said.push(text);
        }
        if types.array > 0 {
            let mut text = String::new();
            self.array(&mut text, field, path, depth);
            said.push(text);
        }
        if types.null > 0 {
            let share = types.null as f64 / types.total().max(1) as f64;
            said.push(if scalars + types.object + types.array == 0 {
                "always null".to_owned()
            } else {
                format!("null ({})", percent(share))
            });
        }
        out.push_str(&said.join(" or "));
    }

    fn array(&self, out: &mut String, field: &Field, path: &str, depth: usize) {
        let length = field.lengths.map_or_else(String::new, |lengths| {
            if lengths.shortest == lengths.longest {
                return lengths.longest.to_string();
            }
            format!(
                "{}–{} (mean {})",
                lengths.shortest,
                thousands(lengths.longest),
                short(lengths.mean)
            )
        });
        match &field.item {
            Some(item) => {
                let _ = write!(out, "array of {length} x ");
                self.value(out, item, &format!("{path}[]"), depth);
            }
            None => out.push_str("array, always empty"),
        }
    }

    fn object(&self, out: &mut String, field: &Field, path: &str, depth: usize) {
        if let (Some(keys), Some(value)) = (&field.keys, field.fields.first()) {
            let count =
                keys.distinct.map_or_else(String::new, |n| format!("{} different ", thousands(n)));
            let sample = keys.samples.first().or(keys.values.first().map(|(value, _)| value));
            let sample =
                sample.map_or_else(String::new, |key| format!(", such as \"{}\"", printable(key)));
            let _ = write!(out, "dictionary {{<key>: ");
            self.value(out, value, &joined(path, &value.name), depth + 1);
            let _ = write!(out, "}} ({count}keys{sample})");
            return;
        }
        let count = field.fields.len();
        if count == 0 {
            out.push_str("object {}");
            return;
        }
        let keys = if count == 1 {
            "1 key".to_owned()
        } else {
            format!("{} keys", thousands(count as u64))
        };
        if depth > self.detail.depth {
            let _ = write!(out, "object {{{keys}}}");
            return;
        }
        let _ = writeln!(out, "object {{{keys}:");
        let shown = self.chosen(field, path, depth);
        let indent = "  ".repeat(depth + 1);
        for (below, _) in field.fields.iter().zip(&shown).filter(|(_, shown)| **shown) {
            let _ = write!(out, "{indent}{}", printable(&below.name));
            if below.presence < 1.0 {
                let _ = write!(out, " (optional, in {})", percent(below.presence));
            }
            out.push_str(": ");
            self.value(out, below, &joined(path, &below.name), depth + 1);
            out.push('\n');
        }
        self.left_out(out, field, &shown, &indent);
        let _ = write!(out, "{}}}", "  ".repeat(depth));
    }

    fn left_out(&self, out: &mut String, field: &Field, shown: &[bool], indent: &str) {
        let hidden =
            field.fields.iter().zip(shown).filter(|(_, shown)| !**shown).map(|(below, _)| below);
        let (optional, required): (Vec<_>, Vec<_>) = hidden.partition(|below| below.presence < 1.0);
        for (count, what) in [(required.len(), ""), (optional.len(), "optional ")] {
            if count > 0 {
                let fields = if count == 1 { "field" } else { "fields" };
                let _ = writeln!(out, "{indent}… {count} more {what}{fields}");
            }
        }
    }

    /// Which fields of an object are shown.
    fn chosen(&self, field: &Field, path: &str, depth: usize) -> Vec<bool> {
        let rank = |below: &Field| {
            let path = joined(path, &below.name);
            let is_important = |known: &&str| {
                **known == *path
                    || known
                        .strip_prefix(path.as_str())
                        .is_some_and(|rest| rest.starts_with(['.', '[']))
            };
            if self.important.iter().any(is_important) {
                return 0;
            }
            match below {
                below if below.dates.is_some() => 1,
                below if below.presence < self.detail.presence && depth > 0 => 9,
                below if below.types.object + below.types.array > 0 => 2,
                below if !below.values.is_empty() => 3,
                below if below.numbers.is_some() => 4,
                _ => 5,
            }
        };
        let ranks: Vec<u8> = field.fields.iter().map(rank).collect();
        let mut order: Vec<usize> = (0..ranks.len()).collect();
        order.sort_by_key(|&place| (ranks[place], place));
        let mut shown = vec![false; ranks.len()];
        for &place in order.iter().take(self.detail.fields) {
            shown[place] = ranks[place] < 9;
        }
        shown
    }

    fn scalar(&self, field: &Field) -> String {
        let mut notes: Vec<String> = Vec::new();
        let kind = kind(field);
        if let Some(dates) = &field.dates {
            let zone = match dates.zone {
                DateZone::None if dates.first.len() > 10 => ", no zone",
                DateZone::None => "",
                DateZone::Utc => ", UTC",
                DateZone::Offset => ", with offsets",
                DateZone::Mixed => ", zones mixed",
            };
            let ambiguous = if dates.is_ambiguous { ", day and month may be swapped" } else { "" };
            notes.push(format!("{}..{}{zone}{ambiguous}", dates.first, dates.last));
        } else {
            self.enumerate(field, &mut notes);
            self.measure(field, &mut notes);
        }
        if field.has_decimal_commas {
            notes.push("decimal commas in the file, loaded as numbers".to_owned());
        }
        if field.dates.is_none() && field.values.is_empty() {
            if let Some(distinct) = field.distinct {
                let about = if field.distinct_is_exact { "" } else { "~" };
                notes.push(format!("{about}{} distinct", thousands(distinct)));
            }
            let is_long = field.text.is_some_and(|text| text.is_long);
            let most = if is_long { self.detail.samples.min(1) } else { self.detail.samples };
            let samples = field.samples.iter().take(most);
            let is_text = field.text.is_some();
            let samples: Vec<String> = samples.map(|sample| quoted(sample, is_text)).collect();
            if !samples.is_empty() && field.numbers.is_none() {
                notes.push(samples.join(", "));
            }
        }
        if notes.is_empty() { kind } else { format!("{kind} ({})", notes.join("; ")) }
    }

    fn enumerate(&self, field: &Field, notes: &mut Vec<String>) {
        if field.values.is_empty() {
            return;
        }
        let is_text = field.types.string > 0;
        let shown: Vec<String> = field
            .values
            .iter()
            .take(self.detail.values)
            .map(|(value, count)| {
                format!(
                    "{} ×{}",
                    quoted(value, is_text && value != "true" && value != "false"),
                    thousands(*count)
                )
            })
            .collect();
        let more = field.values.len() - shown.len();
        match (shown.is_empty(), more) {
            (_, _) if field.values.len() == 1 => {
                let (value, _) = &field.values[0];
                let is_word = value == "true" || value == "false";
                notes.push(format!("always {}", quoted(value, is_text && !is_word)));
            }
            (true, _) => notes.push(format!("{} different values", field.values.len())),
            (false, 0) => notes.push(format!("one of {}", shown.join(", "))),
            (false, more) => notes.push(format!("one of {}, … {more} more", shown.join(", "))),
        }
    }

    fn measure(&self, field: &Field, notes: &mut Vec<String>) {
        if let Some(numbers) = &field.numbers {
            let mut note = format!("{}..{}", short(numbers.min), short(numbers.max));
            if let (true, Some([low, _, middle, _, high])) =
                (self.detail.quantiles, numbers.quantiles)
            {
                let (low, middle, high) = (short(low), short(middle), short(high));
                let mean =
                    numbers.mean.map_or_else(String::new, |mean| format!(", mean {}", short(mean)));
                let _ = write!(note, "{mean}, 5/50/95 %: {low}/{middle}/{high}");
            } else if let Some([_, _, middle, _, _]) = numbers.quantiles {
                let _ = write!(note, ", median {}", short(middle));
            }
            if field.values.is_empty() || field.values.len() > self.detail.values {
                notes.push(note);
            }
        }
        if let Some(text) = &field.text
            && field.values.is_empty()
        {
            if text.is_long {
                notes.push(format!(
                    "long text, {} chars on average: do not print",
                    short(text.mean.round())
                ));
            } else if text.longest > 40 {
                notes.push(format!("{}–{} chars", text.shortest, text.longest));
            }
            if text.empty > 0 {
                notes.push(format!("{} empty", thousands(text.empty)));
            }
        }
    }
}

/// What a file's own schema calls a column's type, where this says more than the values do.
fn stored(field: &Field) -> Option<&str> {
    let is_epoch = matches!(field.meaning, Some(Meaning::EpochSeconds | Meaning::EpochMillis));
    let is_text = |stored: &&str| matches!(*stored, "string" | "json");
    field.stored_as.as_deref().filter(|stored| !is_epoch && !is_text(stored))
}

fn kind(field: &Field) -> String {
    let types = field.types;
    if let Some(stored) = stored(field) {
        return stored.to_owned();
    }
    let meaning = field.meaning.as_ref().map(|meaning| match meaning {
        Meaning::Date => "date as string".to_owned(),
        Meaning::DateTime => "date-time as string".to_owned(),
        Meaning::DateMonthFirst => "date as string, MM/DD/YYYY".to_owned(),
        Meaning::DateDayFirst => "date as string, DD/MM/YYYY".to_owned(),
        Meaning::DateDotted => "date as string, DD.MM.YYYY".to_owned(),
        Meaning::EpochSeconds => "epoch seconds".to_owned(),
        Meaning::EpochMillis => "epoch milliseconds".to_owned(),
        Meaning::Uuid => "UUID".to_owned(),
        Meaning::Email => "email".to_owned(),
        Meaning::Url => "URL".to_owned(),
        Meaning::NumericText => "number as string".to_owned(),
        Meaning::ZeroPadded => "digits as string, leading zeros matter".to_owned(),
        Meaning::Currency => "amount with currency as string".to_owned(),
        Meaning::Percent => "percentage as string".to_owned(),
        Meaning::Pattern(pattern) => format!("string like {pattern}"),
    });
    let numbers = match (types.int > 0, types.float > 0) {
        (true, true) => Some("number"),
        (true, false) => Some("int"),
        (false, true) => Some("float"),
        (false, false) => None,
    };
    let bool = (types.bool > 0).then_some("bool");
    let text = (types.string > 0).then_some("string");
    match meaning {
        Some(meaning)
            if usize::from(bool.is_some()) + usize::from(text.is_some() && numbers.is_some())
                == 0 =>
        {
            meaning
        }
        _ => {
            let kinds: Vec<&str> = [text, numbers, bool].into_iter().flatten().collect();
            kinds.join("/")
        }
    }
}

fn quoted(value: &str, is_text: bool) -> String {
    if is_text { format!("\"{}\"", printable(value)) } else { printable(value) }
}
