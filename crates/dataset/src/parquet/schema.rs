//! From a footer to fields.

use super::Told;
use super::thrift::{Kind, Reader};
use crate::date::{self, Grain};
use crate::describe::{DateGrain, DateRange, DateZone, Field, Meaning, NumberRange, Types};
use crate::limits;
use crate::summarize::shown;

/// How a leaf's values are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Physical {
    Bool,
    Int32,
    Int64,
    Float,
    Double,
    #[default]
    Bytes,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Logical {
    #[default]
    None,
    Text,
    List,
    Map,
    Decimal,
    Date,
    /// Units of a second.
    Timestamp {
        units: i64,
        is_utc: bool,
    },
    Uuid,
    Other,
}

#[derive(Debug, Default)]
struct Element {
    name: String,
    physical: Option<Physical>,
    logical: Logical,
    is_repeated: bool,
    children: usize,
}

/// What the row groups say of one leaf, together.
#[derive(Debug, Default, Clone)]
struct Leaf {
    values: u64,
    nulls: u64,
    min: Option<Vec<u8>>,
    max: Option<Vec<u8>>,
}

/// None if the footer is damaged.
pub(super) fn read(footer: &[u8]) -> Option<Told> {
    let mut elements = Vec::new();
    let mut leaves: Vec<Leaf> = Vec::new();
    let mut rows = 0;
    let mut cut = 0;
    Reader::new(footer).structure(|reader, number, kind| {
        match (number, kind) {
            (2, Kind::List) => {
                let (count, _) = reader.list()?;
                for _ in 0..count {
                    let element = element(reader)?;
                    if elements.len() < limits::PATHS { elements.push(element) } else { cut += 1 }
                }
            }
            (3, Kind::Int) => rows = reader.count()?,
            (4, Kind::List) => {
                // The schema comes first: it says how each leaf is compared.
                let physical: Vec<Physical> =
                    elements.iter().filter_map(|e: &Element| e.physical).collect();
                let (count, _) = reader.list()?;
                for _ in 0..count {
                    row_group(reader, &physical, &mut leaves)?;
                }
            }
            _ => return Some(false),
        }
        Some(true)
    })?;
    let mut build = Build { elements: &elements, leaves: &leaves, leaf: 0, at: 0 };
    let mut root = build.group(rows, 0)?;
    root.presence = 1.0;
    root.name = String::new();
    Some(Told { root, rows, cut })
}

fn element(reader: &mut Reader<'_>) -> Option<Element> {
    let mut element = Element::default();
    reader.structure(|reader, number, kind| {
        match (number, kind) {
            (1, Kind::Int) => {
                element.physical = Some(match reader.int()? {
                    0 => Physical::Bool,
                    1 => Physical::Int32,
                    2 => Physical::Int64,
                    4 => Physical::Float,
                    5 => Physical::Double,
                    _ => Physical::Bytes,
                });
            }
            (3, Kind::Int) => element.is_repeated = reader.int()? == 2,
            (4, Kind::Binary) => {
                let name = reader.binary()?;
                let name = &name[..name.len().min(limits::KEY_BYTES)];
                element.name = String::from_utf8_lossy(name).into_owned();
            }
            (5, Kind::Int) => element.children = usize::try_from(reader.int()?).ok()?,
            (6, Kind::Int) => {
                let converted = converted(reader.int()?);
                if element.logical == Logical::None {
                    element.logical = converted;
                }
            }
            (10, Kind::Struct) => element.logical = logical(reader)?,
            _ => return Some(false),
        }
        Some(true)
    })?;
    Some(element)
}

fn converted(code: i64) -> Logical {
    match code {
        0 | 4 | 19 => Logical::Text,
        1 | 2 => Logical::Map,
        3 => Logical::List,
        5 => Logical::Decimal,
        6 => Logical::Date,
        9 => Logical::Timestamp { units: 1000, is_utc: true },
        10 => Logical::Timestamp { units: 1_000_000, is_utc: true },
        _ => Logical::Other,
    }
}

fn logical(reader: &mut Reader<'_>) -> Option<Logical> {
    let mut found = Logical::Other;
    reader.structure(|reader, number, kind| {
        found = match number {
            1 | 4 | 12 => Logical::Text,
            2 => Logical::Map,
            3 => Logical::List,
            5 => Logical::Decimal,
            6 => Logical::Date,
            8 if kind == Kind::Struct => {
                found = timestamp(reader)?;
                return Some(true);
            }
            14 => Logical::Uuid,
            _ => Logical::Other,
        };
        Some(false)
    })?;
    Some(found)
}

fn timestamp(reader: &mut Reader<'_>) -> Option<Logical> {
    let (mut units, mut is_utc) = (1000, false);
    reader.structure(|reader, number, kind| {
        match (number, kind) {
            (1, Kind::True) => is_utc = true,
            (2, Kind::Struct) => {
                reader.structure(|_, number, _| {
                    units = match number {
                        2 => 1_000_000,
                        3 => 1_000_000_000,
                        _ => 1000,
                    };
                    Some(false)
                })?;
                return Some(true);
            }
            _ => {}
        }
        Some(false)
    })?;
    Some(Logical::Timestamp { units, is_utc })
}

fn row_group(reader: &mut Reader<'_>, physical: &[Physical], leaves: &mut Vec<Leaf>) -> Option<()> {
    reader.structure(|reader, number, kind| {
        if (number, kind) != (1, Kind::List) {
            return Some(false);
        }
        let (count, _) = reader.list()?;
        for place in 0..usize::try_from(count).ok()? {
            let chunk = chunk(reader)?;
            let Some(physical) = physical.get(place) else { continue };
            if leaves.len() <= place {
                leaves.resize(place + 1, Leaf::default());
            }
            leaves[place].merge(chunk, *physical);
        }
        Some(true)
    })
}

fn chunk(reader: &mut Reader<'_>) -> Option<Leaf> {
    let mut leaf = Leaf::default();
    reader.structure(|reader, number, kind| {
        if (number, kind) != (3, Kind::Struct) {
            return Some(false);
        }
        reader.structure(|reader, number, kind| {
            match (number, kind) {
                (5, Kind::Int) => leaf.values = reader.count()?,
                (12, Kind::Struct) => statistics(reader, &mut leaf)?,
                _ => return Some(false),
            }
            Some(true)
        })?;
        Some(true)
    })?;
    Some(leaf)
}

fn statistics(reader: &mut Reader<'_>, leaf: &mut Leaf) -> Option<()> {
    reader.structure(|reader, number, kind| {
        // 1 and 2 are the old ones, whose order is not to be trusted for texts.
        match (number, kind) {
            (3, Kind::Int) => leaf.nulls = reader.count()?,
            (5, Kind::Binary) => leaf.max = Some(kept(reader.binary()?)),
            (6, Kind::Binary) => leaf.min = Some(kept(reader.binary()?)),
            _ => return Some(false),
        }
        Some(true)
    })
}

fn kept(bytes: &[u8]) -> Vec<u8> {
    bytes[..bytes.len().min(128)].to_vec()
}

impl Leaf {
    fn merge(&mut self, other: Self, physical: Physical) {
        let is_first = self.values == 0;
        self.values = self.values.saturating_add(other.values);
        self.nulls = self.nulls.saturating_add(other.nulls);
        // A group that does not say, or only holds nulls, has neither.
        let outer =
            |mine: Option<Vec<u8>>, theirs: Option<Vec<u8>>, is_max: bool| match (mine, theirs) {
                (Some(mine), Some(theirs)) => {
                    let is_larger = is_less(physical, &mine, &theirs);
                    Some(if is_larger == is_max { theirs } else { mine })
                }
                (mine, theirs) => mine.or(theirs),
            };
        if is_first {
            (self.min, self.max) = (other.min, other.max);
        } else {
            self.min = outer(self.min.take(), other.min, false);
            self.max = outer(self.max.take(), other.max, true);
        }
    }
}

fn is_less(physical: Physical, a: &[u8], b: &[u8]) -> bool {
    match (number(physical, a), number(physical, b)) {
        (Some(a), Some(b)) => a < b,
        _ => a < b,
    }
}

fn integer(physical: Physical, bytes: &[u8]) -> Option<i64> {
    match physical {
        Physical::Int32 => Some(i32::from_le_bytes(bytes.try_into().ok()?).into()),
        Physical::Int64 => Some(i64::from_le_bytes(bytes.try_into().ok()?)),
        _ => None,
    }
}

fn number(physical: Physical, bytes: &[u8]) -> Option<f64> {
    let value = match physical {
        Physical::Float => f32::from_le_bytes(bytes.try_into().ok()?).into(),
        Physical::Double => f64::from_le_bytes(bytes.try_into().ok()?),
        _ => integer(physical, bytes)? as f64,
    };
    value.is_finite().then_some(value)
}

/// The schema comes as a list, parents before their children.
struct Build<'a> {
    elements: &'a [Element],
    leaves: &'a [Leaf],
    leaf: usize,
    at: usize,
}

impl Build<'_> {
    /// The element that is next, as a field; `count` is how often it is there.
    fn group(&mut self, count: u64, depth: usize) -> Option<Field> {
        let element = self.elements.get(self.at)?;
        self.at += 1;
        if element.physical.is_some() && element.children == 0 {
            let leaf = self.leaves.get(self.leaf).cloned().unwrap_or_default();
            self.leaf += 1;
            let field = field(element, &leaf);
            return Some(if element.is_repeated { array_of(element, field, count) } else { field });
        }
        if depth == limits::DEPTH {
            return None;
        }
        let mut fields = Vec::new();
        for _ in 0..element.children {
            fields.push(self.group(count, depth + 1)?);
        }
        let types = Types { object: count, ..Types::default() };
        let object =
            Field { types, fields, name: element.name.clone(), presence: 1.0, ..Field::default() };
        Some(match element.logical {
            Logical::List => list(element, object, count),
            Logical::Map => map(element, object, count),
            _ if element.is_repeated && depth > 0 => array_of(element, object, count),
            _ => object,
        })
    }
}

fn array_of(element: &Element, mut item: Field, count: u64) -> Field {
    item.name = String::new();
    let types = Types { array: count, ..Types::default() };
    let name = element.name.clone();
    Field { name, types, presence: 1.0, item: Some(Box::new(item)), ..Field::default() }
}

/// A list is a group with one repeated group with one element.
fn list(element: &Element, mut object: Field, count: u64) -> Field {
    let inner = object.fields.pop().and_then(|mut repeated| {
        let mut item = *repeated.item.take()?;
        Some(if item.fields.len() == 1 { item.fields.remove(0) } else { item })
    });
    match inner {
        Some(item) => array_of(element, item, count),
        None => object,
    }
}

/// A map is a group with one repeated group of a key and a value.
fn map(element: &Element, mut object: Field, count: u64) -> Field {
    let pair = object.fields.pop().and_then(|mut repeated| repeated.item.take());
    let Some(mut pair) = pair.filter(|pair| pair.fields.len() == 2) else { return object };
    let mut value = pair.fields.remove(1);
    value.name = "<key>".to_owned();
    let keys = Some(Box::new(pair.fields.remove(0)));
    let types = Types { object: count, ..Types::default() };
    let name = element.name.clone();
    Field { name, types, presence: 1.0, fields: vec![value], keys, ..Field::default() }
}

fn field(element: &Element, leaf: &Leaf) -> Field {
    let physical = element.physical.unwrap_or_default();
    let there = leaf.values.saturating_sub(leaf.nulls);
    let mut types = Types { null: leaf.nulls.min(leaf.values), ..Types::default() };
    let is_number = element.logical == Logical::None || element.logical == Logical::Other;
    match physical {
        Physical::Bool => types.bool = there,
        Physical::Int32 | Physical::Int64 if is_number => types.int = there,
        Physical::Int32 | Physical::Int64 if element.logical != Logical::Decimal => {
            types.string = there
        }
        Physical::Bytes if element.logical != Logical::Decimal => types.string = there,
        _ => types.float = there,
    }
    let mut field = Field { name: element.name.clone(), types, presence: 1.0, ..Field::default() };
    let range = leaf.min.as_deref().zip(leaf.max.as_deref());
    let Some((min, max)) = range else { return field };
    match element.logical {
        Logical::Date | Logical::Timestamp { .. } => {
            dates(element.logical, physical, (min, max), &mut field)
        }
        Logical::Uuid => field.meaning = Some(Meaning::Uuid),
        Logical::Text => field.samples = vec![shown(min), shown(max)],
        _ if physical != Physical::Bytes
            && physical != Physical::Bool
            && element.logical != Logical::Decimal =>
        {
            if let (Some(min), Some(max)) = (number(physical, min), number(physical, max)) {
                let (mean, quantiles, zeros, negative) = (None, None, None, None);
                field.numbers = Some(NumberRange { min, max, mean, quantiles, zeros, negative });
            }
        }
        _ => {}
    }
    field.samples.dedup();
    field
}

fn dates(logical: Logical, physical: Physical, (min, max): (&[u8], &[u8]), field: &mut Field) {
    let millis = |bytes| {
        let value = integer(physical, bytes)?;
        match logical {
            Logical::Date => value.checked_mul(86_400_000),
            Logical::Timestamp { units, .. } => Some(value / (units / 1000)),
            _ => None,
        }
    };
    // Years that can be written with four digits.
    let is_shown = |at: &i64| (-30_610_224_000_000..253_402_300_800_000).contains(at);
    let range = millis(min).filter(is_shown).zip(millis(max).filter(is_shown));
    let Some((first, last)) = range else { return };
    let (grain, shown_grain, meaning, zone) = match logical {
        Logical::Timestamp { is_utc, .. } => {
            let zone = if is_utc { DateZone::Utc } else { DateZone::None };
            (DateGrain::Fraction, Grain::Second, Meaning::DateTime, zone)
        }
        _ => (DateGrain::Day, Grain::Day, Meaning::Date, DateZone::None),
    };
    field.meaning = Some(meaning);
    field.dates = Some(DateRange {
        first: date::show(first, shown_grain),
        last: date::show(last, shown_grain),
        grain,
        zone,
        count: field.types.total() - field.types.null,
        is_ambiguous: false,
    });
}

#[cfg(test)]
mod tests;
