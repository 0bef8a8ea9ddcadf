//! What is described is what is loaded: tables that are made up, written in random forms, described
//! on the host, and loaded in a sandbox.
//!
//! Requirements: D5

mod table;

use std::collections::BTreeMap;
use std::path::Path;

use serde::Deserialize;
use serde_json::Value;

use self::table::{Kind, Random, Table};
use crate::ask::{belljar, scripted};
use crate::world::{MODEL, TEMPLATE, World};

/// Has openpyxl, in every store.
const WITH_EXCEL: &str = "code-interpreter";

/// Files of one sandbox: more would be copied, not mounted.
const FILES: u64 = 28;

/// Loads everything, and writes down what is there.
const LOAD: &str = r#"
import json, os
load_data()
folder = os.environ.get("BELLJAR_DATA") or "/mnt/data"
def kind(column):
    if column.isna().all():
        return "null"
    if str(column.dtype).startswith("datetime"):
        return "moment"
    first = {type(value).__name__ for value in column.dropna().tolist()}
    return {"int": "int", "float": "float", "bool": "bool", "str": "text"}.get(first.pop() if len(first) == 1 else "", "mixed")
told = {}
for entry in json.load(open(folder + "/datasets.json"))["datasets"]:
    frame = globals()[entry["variable"]]
    columns = []
    for place, name in enumerate(frame.columns):
        column = frame.iloc[:, place]
        there = column.dropna()
        columns.append({
            "name": name, "kind": kind(column), "nulls": int(column.isna().sum()), "distinct": int(there.nunique()),
            "sum": float(there.sum()) if kind(column) in ("int", "float") else None,
            "texts": sorted(set(there)) if kind(column) == "text" and there.nunique() < 20 else None,
        })
    told[entry["name"]] = {"rows": len(frame), "columns": columns}
json.dump(told, open("loaded.json", "w"))
"#;

/// Makes workbooks of tables.
const WRITE_BOOKS: &str = r#"
import datetime, json, openpyxl
for name, book in json.load(open("books.json")).items():
    workbook = openpyxl.Workbook()
    sheet = workbook.active
    sheet.title = "Data 1"
    workbook.create_sheet("Notes")["A1"] = "not this one"
    for row, cells in enumerate(book["rows"]):
        for column, cell in enumerate(cells):
            if isinstance(cell, str) and cell.startswith("date:"):
                cell = datetime.datetime.fromisoformat(cell[5:])
            if cell is not None:
                sheet.cell(row + 1 + book["down"], column + 1 + book["right"], cell)
    workbook.save(name)
"#;

#[derive(Debug, Deserialize)]
struct Loaded {
    rows: u64,
    columns: Vec<Column>,
}

#[derive(Debug, Deserialize)]
struct Column {
    name: String,
    kind: String,
    nulls: u64,
    distinct: u64,
    sum: Option<f64>,
    texts: Option<Vec<String>>,
}

pub(crate) async fn what_is_described_is_what_is_loaded(world: &World) {
    let given = std::env::var("BELLJAR_FORMS_SEED").ok().and_then(|seed| seed.parse().ok());
    let seed: u64 = given.unwrap_or(21);
    println!("seed {seed}: BELLJAR_FORMS_SEED chooses another");
    for (template, seed) in [(TEMPLATE, seed), (WITH_EXCEL, seed + 1000)] {
        let place = tempfile::tempdir_in(world.directory.path()).unwrap();
        let mut random = Random(seed);
        let books = if template == WITH_EXCEL { FILES / 3 } else { 0 };
        let tables: Vec<Table> =
            (0..FILES).map(|n| Table::random(&mut random, n, n < books)).collect();
        write(place.path(), &tables).await;
        let names: Vec<&str> = tables.iter().map(|table| &*table.file).collect();
        let described = described(place.path(), &names).await;
        let (loaded, prompt) = loaded(place.path(), &names, template).await;
        for table in &tables {
            let dataset = &described[&table.file];
            agree(table, dataset, &loaded[&table.file]);
            let (variable, rows) = (dataset["variable"].as_str().unwrap(), table.rows);
            let told = prompt.lines().find(|line| line.starts_with(&format!("{variable} (")));
            let records = if rows == 1 { "1 record.".into() } else { format!("{rows} records.") };
            assert!(told.is_some_and(|told| told.contains(&records)), "{}: {told:?}", table.form);
        }
    }
}

/// Writes the files; those of Excel in a sandbox, by a program that people use for it.
async fn write(place: &Path, tables: &[Table]) {
    let mut books = serde_json::Map::new();
    for table in tables {
        match table.book() {
            Some(book) => drop(books.insert(table.file.clone(), book)),
            None => std::fs::write(place.join(&table.file), table.bytes()).unwrap(),
        }
    }
    if books.is_empty() {
        return;
    }
    let names: Vec<String> = books.keys().cloned().collect();
    std::fs::write(place.join("books.json"), Value::from(books).to_string()).unwrap();
    std::fs::write(place.join("write.py"), WRITE_BOOKS).unwrap();
    let mut run = vec!["run", "write.py", "--template", WITH_EXCEL, "--in", "books.json"];
    names.iter().for_each(|name| run.extend(["--out", name]));
    let ran = belljar(place, &run).await;
    assert_eq!(ran.status, Some(0), "{}{}", ran.stdout, ran.stderr);
}

async fn described(place: &Path, names: &[&str]) -> BTreeMap<String, Value> {
    let told = belljar(place, &[&["dataset", "describe", "--json"], names].concat()).await;
    assert_eq!(told.status, Some(0), "{}", told.stderr);
    let mut document: Value = serde_json::from_str(&told.stdout).unwrap();
    let datasets = document["datasets"].as_array_mut().unwrap().drain(..);
    datasets.map(|dataset| (dataset["name"].as_str().unwrap().to_owned(), dataset)).collect()
}

/// What `load_data` made of the files, and what the model was told of them.
async fn loaded(
    place: &Path,
    names: &[&str],
    template: &str,
) -> (BTreeMap<String, Loaded>, String) {
    let call = serde_json::json!({ "code": LOAD });
    let script = format!(
        "[[turn]]\ncall = [{{ tool = \"execute_python\", input = {} }}]\n[[turn]]\n\
         call = [{{ tool = \"finish\", input = {{ answer = \"done\", files = [\"loaded.json\"] }} }}]\n",
        toml::Value::try_from(call).unwrap()
    );
    let model = scripted(&script).await;
    let url = format!("http://{}", model.address());
    let ask = ["ask", "What is there?", "--model", MODEL, "--model-url", &url];
    let data = ["--template", template, "--out", "out", "--data"];
    let asked = belljar(place, &[&ask[..], &data[..], names].concat()).await;
    assert_eq!(asked.status, Some(0), "{}{}", asked.stdout, asked.stderr);
    let written = std::fs::read_to_string(place.join("out/loaded.json"));
    let written = written.unwrap_or_else(|error| panic!("{error}: {}", asked.stderr));
    let bodies: Vec<Value> = model
        .record()
        .all()
        .iter()
        .filter_map(|asked| serde_json::from_str(asked.body.as_deref()?).ok())
        .collect();
    let mut prompt = String::new();
    bodies.iter().for_each(|body| texts(body, &mut prompt));
    (serde_json::from_str(&written).unwrap(), prompt)
}

/// All texts of a document, one after the other.
fn texts(value: &Value, into: &mut String) {
    match value {
        Value::String(text) => {
            into.push_str(text);
            into.push('\n');
        }
        Value::Array(items) => items.iter().for_each(|item| texts(item, into)),
        Value::Object(fields) => fields.values().for_each(|value| texts(value, into)),
        _ => {}
    }
}

/// The table as it was made up, as it is described, and as it is loaded.
#[track_caller]
fn agree(table: &Table, dataset: &Value, loaded: &Loaded) {
    let form = &table.form;
    assert_eq!((dataset["rows"].as_u64(), loaded.rows), (Some(table.rows), table.rows), "{form}");
    let fields = dataset["root"]["fields"].as_array().unwrap();
    let names: Vec<&str> = fields.iter().map(|field| field["name"].as_str().unwrap()).collect();
    let there: Vec<&str> = loaded.columns.iter().map(|column| &*column.name).collect();
    let made: Vec<&str> = table.columns.iter().map(|column| &*column.name).collect();
    assert_eq!((&names, &there), (&made, &made), "{form}");
    for ((made, field), there) in table.columns.iter().zip(fields).zip(&loaded.columns) {
        let at = format!("{form}, {}: {field}\n{there:?}", made.name);
        let count = |kind: &str| field["types"][kind].as_u64().unwrap_or(0);
        let nulls = made.cells.iter().filter(|cell| cell.is_none()).count() as u64;
        assert_eq!((count("null"), there.nulls), (nulls, nulls), "{at}");
        let values = table.rows - nulls;
        let (described, kind) = match made.kind {
            _ if values == 0 => (0, "null"),
            Kind::Int if nulls == 0 => (count("int"), "int"),
            Kind::Int => (count("int"), "float"),
            Kind::Float => (count("int") + count("float"), "float"),
            Kind::Bool => (count("bool"), "bool"),
            Kind::Moment => (count("string"), "moment"),
            Kind::Text | Kind::Date | Kind::Padded => (count("string"), "text"),
        };
        assert_eq!((described, &*there.kind), (values, kind), "{at}");
        if made.kind == Kind::Moment && values > 0 {
            assert_eq!(field["stored_as"], "timestamp", "{at}");
        }
        if made.kind == Kind::Date && values > 0 {
            assert!(field["dates"]["first"].is_string(), "{at}");
        }
        let distinct = made.distinct();
        assert_eq!(there.distinct, distinct, "{at}");
        let said = field["distinct"].as_u64().unwrap_or(0);
        assert!(made.kind == Kind::Bool || said <= values, "{at}");
        if field["distinct_is_exact"] == true {
            assert_eq!(said, distinct, "{at}");
        }
        if let Some(sum) = there.sum {
            assert!((sum - made.sum()).abs() < 1e-6 * (1.0 + made.sum().abs()), "{at}");
            let numbers = &field["numbers"];
            let (low, high) = made.range();
            let close = |told: &Value, real: f64| (told.as_f64().unwrap() - real).abs() < 1e-9;
            assert!(close(&numbers["min"], low) && close(&numbers["max"], high), "{at}");
        }
        if let Some(texts) = &there.texts {
            assert_eq!(*texts, made.texts(), "{at}");
        }
    }
}
