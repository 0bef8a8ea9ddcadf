//! Made-up files of one company, and what is true about them.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::Write as _;

use belljar_dataset::{Description, Input, Options};

/// Describes contents as if they were files of these names.
pub(crate) fn describe(files: &[(String, impl AsRef<[u8]>)]) -> Description {
    let inputs: Vec<Input> = files
        .iter()
        .map(|(name, content)| {
            let mut file: File = tempfile::tempfile().unwrap();
            file.write_all(content.as_ref()).unwrap();
            Input::new(name.clone(), file).unwrap()
        })
        .collect();
    belljar_dataset::describe(&inputs, &Options { threads: 2, passed: &|_| {} }).unwrap()
}

struct Numbers(u64);

impl Numbers {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((mixed ^ (mixed >> 31)) % bound as u64).unwrap()
    }

    fn one_in(&mut self, count: usize) -> bool {
        self.below(count) == 0
    }

    fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.below(from.len())]
    }
}

/// A value, as JSON writes it.
type Json = String;

struct Table {
    name: &'static str,
    singular: &'static str,
    file: String,
    key: String,
    ids: Vec<Json>,
}

#[derive(Default)]
pub(crate) struct World {
    pub(crate) files: Vec<(String, String)>,
    pub(crate) relationships: BTreeSet<String>,
    pub(crate) keys: BTreeSet<String>,
}

const TABLES: [(&str, &str); 8] = [
    ("customers", "customer"),
    ("products", "product"),
    ("users", "user"),
    ("orders", "order"),
    ("tickets", "ticket"),
    ("invoices", "invoice"),
    ("companies", "company"),
    ("events", "event"),
];

impl World {
    pub(crate) fn new(seed: u64) -> Self {
        let mut numbers = Numbers(seed.wrapping_mul(0x2545_f491_4f6c_dd1d));
        let mut world = Self::default();
        let mut tables: Vec<Table> = Vec::new();
        let mut kinds = TABLES.to_vec();
        for _ in 0..3 + numbers.below(3) {
            let (name, singular) = kinds.remove(numbers.below(kinds.len()));
            let table = world.table(&mut numbers, name, singular, &tables);
            tables.push(table);
        }
        if tables.len() > 1 && numbers.one_in(2) {
            world.pairs(&mut numbers, &tables);
        }
        world
    }

    fn table(
        &mut self,
        numbers: &mut Numbers,
        name: &'static str,
        singular: &'static str,
        others: &[Table],
    ) -> Table {
        let rows = 60 + numbers.below(900);
        let ids = ids(numbers, singular, rows);
        let extension = *numbers.pick(&["csv", "json", "jsonl"]);
        let key = match numbers.below(3) {
            0 => format!("{singular}_id"),
            1 if extension != "csv" => format!("{singular}Id"),
            _ => "id".to_owned(),
        };
        let file = format!("{name}.{extension}");
        self.keys.insert(format!("{file}::{key}"));
        let mut columns: Vec<(String, Vec<Json>)> = vec![(key.clone(), ids.clone())];
        for _ in 0..if others.is_empty() { 0 } else { 1 + numbers.below(2) } {
            let other = numbers.pick(others);
            let column = reference_name(numbers, other.singular, extension);
            if columns.iter().any(|(name, _)| *name == column) {
                continue;
            }
            let truth = format!("{file}.{column} -> {}.{}", other.file, other.key);
            self.relationships.insert(truth);
            columns.push((column, references(numbers, &other.ids, rows)));
        }
        if numbers.one_in(4) {
            let column = format!("parent_{singular}_id");
            self.relationships.insert(format!("{file}.{column} -> {file}.{key}"));
            columns.push((column, references(numbers, &ids, rows)));
        }
        if name == "users" {
            let emails = (0..rows).map(|n| format!("\"user{n}@example.com\"")).collect();
            columns.push(("email".to_owned(), emails));
            self.keys.insert(format!("{file}::email"));
        }
        noise(numbers, &mut columns, rows);
        let text = match extension {
            "csv" => as_csv(&columns, rows),
            "json" => format!("[{}]", as_json(&columns, rows).join(",\n")),
            _ => as_json(&columns, rows).join("\n"),
        };
        self.files.push((file.clone(), text));
        Table { name, singular, file, key, ids }
    }

    /// A table whose key is two references together.
    fn pairs(&mut self, numbers: &mut Numbers, tables: &[Table]) {
        let (a, b) = (&tables[0], &tables[1]);
        let columns = [format!("{}_id", a.singular), format!("{}_id", b.singular)];
        let mut seen = BTreeSet::new();
        let mut lines = vec![format!("{},{},weight", columns[0], columns[1])];
        for _ in 0..1500 {
            let pair = (numbers.below(a.ids.len()), numbers.below(b.ids.len()));
            if seen.insert(pair) {
                let (first, second) = (plain(&a.ids[pair.0]), plain(&b.ids[pair.1]));
                lines.push(format!("{first},{second},{}", numbers.below(50)));
            }
        }
        let file = format!("{}_{}.csv", a.name, b.name);
        for (column, other) in columns.iter().zip([a, b]) {
            self.relationships.insert(format!("{file}.{column} -> {}.{}", other.file, other.key));
        }
        self.keys.insert(format!("{file}::{}", columns.join("+")));
        self.files.push((file, lines.join("\n")));
    }
}

fn reference_name(numbers: &mut Numbers, singular: &str, extension: &str) -> String {
    match numbers.below(5) {
        0 => format!("billing_{singular}_id"),
        1 if extension != "csv" => format!("{singular}Id"),
        2 if extension != "csv" => format!("{singular}.id"),
        3 => singular.to_owned(),
        _ => format!("{singular}_id"),
    }
}

fn ids(numbers: &mut Numbers, singular: &str, rows: usize) -> Vec<Json> {
    let mut ids: Vec<Json> = match numbers.below(5) {
        0 => (0..rows).map(|n| (n + 1).to_string()).collect(),
        1 => (0..rows).map(|n| (10_000 + 7 * n).to_string()).collect(),
        2 => (0..rows).map(|n| format!("\"{singular}_{n:05}\"")).collect(),
        3 => (0..rows).map(|n| format!("\"{}-{n}\"", &singular[..3].to_uppercase())).collect(),
        _ => (0..rows)
            .map(|_| {
                let mut hex = |digits: usize| -> String {
                    (0..digits)
                        .map(|_| {
                            char::from_digit(u32::try_from(numbers.below(16)).unwrap(), 16).unwrap()
                        })
                        .collect()
                };
                format!("\"{}-{}-{}-{}-{}\"", hex(8), hex(4), hex(4), hex(4), hex(12))
            })
            .collect(),
    };
    if numbers.one_in(3) {
        for place in (1..ids.len()).rev() {
            ids.swap(place, numbers.below(place + 1));
        }
    }
    ids
}

/// Some are missing, some refer to nothing, and not everything is referred to.
fn references(numbers: &mut Numbers, ids: &[Json], rows: usize) -> Vec<Json> {
    let used = (ids.len() / 2 + numbers.below(ids.len() / 2 + 1)).max(1);
    let (has_nulls, has_orphans) = (numbers.one_in(3), numbers.one_in(4));
    let mut value = |_| {
        if has_nulls && numbers.one_in(8) {
            return "null".to_owned();
        }
        let id = &ids[numbers.below(used)];
        if has_orphans && numbers.one_in(50) {
            return if id.starts_with('"') { "\"gone\"".to_owned() } else { "99999999".to_owned() };
        }
        id.clone()
    };
    (0..rows).map(&mut value).collect()
}

/// What tables have besides, and what must not be taken for keys.
fn noise(numbers: &mut Numbers, columns: &mut Vec<(String, Vec<Json>)>, rows: usize) {
    let mut add = |name: &str, value: &mut dyn FnMut(usize) -> Json| {
        columns.push((name.to_owned(), (0..rows).map(value).collect()));
    };
    add("quantity", &mut |_| (1 + numbers.below(10)).to_string());
    add("amount", &mut |_| (100 + numbers.below(2_000_000)).to_string());
    add("score", &mut |_| format!("{}.{:03}", numbers.below(100), numbers.below(1000)));
    add("status", &mut |_| format!("\"{}\"", numbers.pick(&["open", "closed", "pending"])));
    add("year", &mut |_| (2015 + numbers.below(11)).to_string());
    add("rank", &mut |n| (n + 1).to_string());
    add("created_at", &mut |_| {
        let (month, day) = (1 + numbers.below(12), 1 + numbers.below(28));
        format!(
            "\"2026-{month:02}-{day:02}T{:02}:{:02}:00Z\"",
            numbers.below(24),
            numbers.below(60)
        )
    });
    add("title", &mut |n| format!("\"Some words about number {n}\""));
}

fn plain(json: &str) -> &str {
    if json == "null" { "" } else { json.trim_matches('"') }
}

fn as_csv(columns: &[(String, Vec<Json>)], rows: usize) -> String {
    let mut lines =
        vec![columns.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>().join(",")];
    for row in 0..rows {
        let cells: Vec<&str> = columns.iter().map(|(_, values)| plain(&values[row])).collect();
        lines.push(cells.join(","));
    }
    lines.join("\r\n")
}

fn as_json(columns: &[(String, Vec<Json>)], rows: usize) -> Vec<String> {
    let record = |row: usize| {
        let fields = columns.iter().map(|(name, values)| match name.split_once('.') {
            Some((outer, inner)) => format!("\"{outer}\":{{\"{inner}\":{}}}", values[row]),
            None => format!("\"{name}\":{}", values[row]),
        });
        format!("{{{}}}", fields.collect::<Vec<_>>().join(","))
    };
    (0..rows).map(record).collect()
}
