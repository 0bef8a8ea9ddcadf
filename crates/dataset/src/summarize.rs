//! From a tree of sketches to fields that can be read.

use crate::column::{Column, Dates, Many};
use crate::date::{self, Grain, Millis};
use crate::describe::{
    DateGrain, DateRange, DateZone, Field, LengthRange, Meaning, NumberRange, TextRange, Types,
};
use crate::meaning;
use crate::tree::{Counts, Id, Node, ROOT, Tree};

/// A longer text on average is not to be printed.
const LONG: f64 = 500.0;
/// How many characters of a sample are shown.
const SHOWN: usize = 48;

pub(crate) fn root(tree: &Tree) -> Field {
    let mut root = field(tree, ROOT, tree.node(ROOT).counts.total());
    root.presence = 1.0;
    root
}

/// `objects` is how many objects could have had it.
fn field(tree: &Tree, id: Id, objects: u64) -> Field {
    let node = tree.node(id);
    let name = text(&node.key);
    let mut field = column(&node.column, &node.counts, &name);
    field.types = types(&node.counts);
    field.presence = share(node.counts.total(), objects);
    field.name = name;
    field.has_decimal_commas = node.has_commas;
    field.stored_as = node.stored_as.as_deref().map(str::to_owned);
    below(tree, node, &mut field);
    field
}

fn below(tree: &Tree, node: &Node, field: &mut Field) {
    field.lengths = (node.lengths.count > 0).then(|| LengthRange {
        shortest: node.lengths.shortest,
        longest: node.lengths.longest,
        mean: rounded(node.lengths.sum as f64 / node.lengths.count as f64),
    });
    field.item = node.item.map(|item| {
        let mut item = self::field(tree, item, 0);
        item.presence = 1.0;
        Box::new(item)
    });
    let objects = node.counts.objects;
    field.fields = node.children.iter().map(|&child| self::field(tree, child, objects)).collect();
    field.keys = node.keys.as_ref().map(|keys| {
        let mut about = column(keys, &Counts::default(), "");
        about.presence = 1.0;
        if let Some(value) = field.fields.first_mut() {
            value.presence = 1.0;
        }
        Box::new(about)
    });
}

fn types(counts: &Counts) -> Types {
    Types {
        null: counts.nulls,
        bool: counts.falses + counts.trues,
        int: counts.ints,
        float: counts.floats + counts.not_finite,
        string: counts.texts,
        array: counts.arrays,
        object: counts.objects,
    }
}

fn column(column: &Column, counts: &Counts, name: &str) -> Field {
    let many = column.many();
    let few = column.few();
    let mut field = Field::default();
    if let Some(distinct) = &many.distinct {
        // A sketch may say more than there are. The keys of a dictionary are counted elsewhere.
        let values = counts.ints + counts.floats + counts.texts;
        let most = if values == 0 { u64::MAX } else { values };
        let count = distinct.estimate().min(most);
        field.distinct = (count > 0).then_some(count);
        field.distinct_is_exact = distinct.bottom.is_whole() && count > 0;
    }
    if let Some(few) = few {
        let values = few.entries().iter().map(|entry| (shown(&entry.text), entry.count));
        field.values = values.collect();
        field.values.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    }
    if counts.falses + counts.trues > 0 {
        field
            .values
            .extend([("true".to_owned(), counts.trues), ("false".to_owned(), counts.falses)]);
        field.values.retain(|(_, count)| *count > 0);
    }
    field.numbers = many.numbers.as_ref().map(|numbers| NumberRange {
        min: numbers.min,
        max: numbers.max,
        mean: Some(rounded(numbers.mean())),
        quantiles: numbers.quantiles.as_ref().map(|quantiles| {
            let at = |share| rounded(quantiles.at(share, numbers.min, numbers.max));
            [0.05, 0.25, 0.5, 0.75, 0.95].map(at)
        }),
        zeros: Some(numbers.zeros),
        negative: Some(numbers.negative),
    });
    field.text = many.texts.as_ref().map(|texts| {
        let mean = texts.chars as f64 / texts.count as f64;
        TextRange {
            shortest: texts.shortest,
            longest: texts.longest,
            mean: rounded(mean),
            empty: texts.empty,
            is_long: mean > LONG,
        }
    });
    field.samples = many.samples().map(shown).collect();
    meaning_of(&many, name, &mut field);
    field
}

fn meaning_of(many: &Many, name: &str, field: &mut Field) {
    let texts = many.texts.as_ref().map_or(0, |texts| texts.count - texts.empty);
    if let Some(dates) = &many.dates
        && dates.count * 20 >= texts * 19
    {
        let (range, meaning) = written(dates);
        field.dates = Some(range);
        field.meaning = Some(meaning);
        return;
    }
    if texts > 0 {
        if let Some(distinct) = &many.distinct {
            field.meaning = meaning::of_texts(distinct.bottom.texts());
        }
        return;
    }
    if let Some((first, last, meaning)) = epoch(many, name) {
        let range = DateRange {
            first: date::show(first, Grain::Second),
            last: date::show(last, Grain::Second),
            grain: if meaning == Meaning::EpochMillis {
                DateGrain::Fraction
            } else {
                DateGrain::Second
            },
            zone: DateZone::Utc,
            count: many.numbers.as_ref().map_or(0, |numbers| numbers.count),
            is_ambiguous: false,
        };
        field.dates = Some(range);
        field.meaning = Some(meaning);
    }
}

/// Integers that are moments between 2000 and 2100. Seconds look like many other
/// numbers, so the name has to say as much.
#[expect(clippy::cast_possible_truncation, reason = "below 2^53")]
fn epoch(many: &Many, name: &str) -> Option<(Millis, Millis, Meaning)> {
    const FROM: f64 = 946_684_800.0;
    const UNTIL: f64 = 4_102_444_800.0;
    let numbers = many.numbers.as_ref()?;
    let is_within = |unit: f64| numbers.min >= FROM * unit && numbers.max < UNTIL * unit;
    let is_whole = numbers.min.fract() == 0.0 && numbers.max.fract() == 0.0;
    if is_whole && is_within(1000.0) {
        return Some((numbers.min as i64, numbers.max as i64, Meaning::EpochMillis));
    }
    let name = name.to_ascii_lowercase();
    let is_said = ["time", "date", "created", "updated", "epoch", "ts", "_at", "timestamp", "when"]
        .iter()
        .any(|word| {
            name.ends_with(word) || name.starts_with(word) && *word != "ts" && *word != "_at"
        });
    let seconds = |value: f64| (value * 1000.0) as i64;
    (is_said && is_within(1.0))
        .then(|| (seconds(numbers.min), seconds(numbers.max), Meaning::EpochSeconds))
}

fn written(dates: &Dates) -> (DateRange, Meaning) {
    let grain_of = |grain| match grain {
        Grain::Day => DateGrain::Day,
        Grain::Minute => DateGrain::Minute,
        Grain::Second => DateGrain::Second,
        Grain::Fraction => DateGrain::Fraction,
    };
    if let Some(iso) = &dates.iso {
        let zone = match (iso.without_zone > 0, iso.utc > 0, iso.offset > 0) {
            (true, false, false) => DateZone::None,
            (false, true, false) => DateZone::Utc,
            (false, false, true) => DateZone::Offset,
            _ => DateZone::Mixed,
        };
        let (first, last) = (date::show(iso.min, iso.grain), date::show(iso.max, iso.grain));
        let grain = grain_of(iso.grain);
        let meaning = if iso.grain == Grain::Day { Meaning::Date } else { Meaning::DateTime };
        let count = dates.count;
        return (DateRange { first, last, grain, zone, count, is_ambiguous: false }, meaning);
    }
    if dates.dotted.dates.count > 0 {
        let (first, last) = dates.dotted.dates.range.unwrap_or_default();
        let shown = |at| date::show(at, dates.dotted.grain);
        let range = DateRange {
            first: shown(first),
            last: shown(last),
            grain: grain_of(dates.dotted.grain),
            zone: DateZone::None,
            count: dates.dotted.dates.count,
            is_ambiguous: false,
        };
        return (range, Meaning::DateDotted);
    }
    let (month, day) = (dates.month_first, dates.day_first);
    let is_ambiguous = month.count == day.count;
    let (slashed, meaning) = if day.count > month.count {
        (day, Meaning::DateDayFirst)
    } else {
        (month, Meaning::DateMonthFirst)
    };
    let (first, last) = slashed.range.unwrap_or_default();
    let range = DateRange {
        first: date::show(first, Grain::Day),
        last: date::show(last, Grain::Day),
        grain: DateGrain::Day,
        zone: DateZone::None,
        count: slashed.count,
        is_ambiguous,
    };
    (range, meaning)
}

/// On one line, shortened, with what cannot be printed shown as a mark.
pub(crate) fn shown(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let plain = |c: char| match c {
        '\n' | '\r' | '\t' => ' ',
        c if c.is_control() => '\u{fffd}',
        c => c,
    };
    let mut chars = text.chars().map(plain);
    let mut short: String = chars.by_ref().take(SHOWN).collect();
    if chars.next().is_some() {
        short.push('…');
    }
    short
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn share(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { (part as f64 / whole as f64 * 1e4).round() / 1e4 }
}

/// To six digits: more would tell nothing, and be noise in a prompt.
fn rounded(value: f64) -> f64 {
    if value == 0.0 || !value.is_finite() {
        return value;
    }
    #[expect(clippy::cast_possible_truncation, reason = "an exponent of a float")]
    let digits = 5 - value.abs().log10().floor() as i32;
    if digits.abs() > 300 {
        return value;
    }
    let scale = 10f64.powi(digits.abs());
    if digits >= 0 { (value * scale).round() / scale } else { (value / scale).round() * scale }
}
