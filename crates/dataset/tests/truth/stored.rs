//! The same made-up tables, as Parquet files in place of CSV.

use std::sync::Arc;

use parquet::data_type::{ByteArray, ByteArrayType, DoubleType, Int64Type};
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;

use super::world::{World, describe};
use super::{keys, relationships};

/// A table without quotes, in row groups of 100 rows.
fn parquet(csv: &str) -> Vec<u8> {
    let mut lines = csv.lines().map(|line| line.split(',').collect::<Vec<_>>());
    let names = lines.next().unwrap();
    let rows: Vec<Vec<&str>> = lines.collect();
    let cells =
        |column: usize| rows.iter().map(move |row| row[column]).filter(|cell| !cell.is_empty());
    let kind = |column: usize| match column {
        _ if cells(column).all(|cell| cell.parse::<i64>().is_ok()) => "int64",
        _ if cells(column).all(|cell| cell.parse::<f64>().is_ok()) => "double",
        _ => "binary",
    };
    let kinds: Vec<&str> = (0..names.len()).map(kind).collect();
    let fields: Vec<String> = names
        .iter()
        .zip(&kinds)
        .map(|(name, kind)| match *kind {
            "binary" => format!("optional binary {name} (UTF8);"),
            kind => format!("optional {kind} {name};"),
        })
        .collect();
    let schema = parse_message_type(&format!("message table {{ {} }}", fields.concat())).unwrap();
    let properties = Arc::new(WriterProperties::default());
    let mut writer = SerializedFileWriter::new(Vec::new(), Arc::new(schema), properties).unwrap();
    for rows in rows.chunks(100) {
        let mut group = writer.next_row_group().unwrap();
        for (column, kind) in kinds.iter().enumerate() {
            let mut leaf = group.next_column().unwrap().unwrap();
            let levels: Vec<i16> =
                rows.iter().map(|row| i16::from(!row[column].is_empty())).collect();
            let cells = rows.iter().map(|row| row[column]).filter(|cell| !cell.is_empty());
            let levels = Some(&levels[..]);
            match *kind {
                "int64" => {
                    let values: Vec<i64> = cells.map(|cell| cell.parse().unwrap()).collect();
                    leaf.typed::<Int64Type>().write_batch(&values, levels, None).unwrap();
                }
                "double" => {
                    let values: Vec<f64> = cells.map(|cell| cell.parse().unwrap()).collect();
                    leaf.typed::<DoubleType>().write_batch(&values, levels, None).unwrap();
                }
                _ => {
                    let values: Vec<ByteArray> = cells.map(ByteArray::from).collect();
                    leaf.typed::<ByteArrayType>().write_batch(&values, levels, None).unwrap();
                }
            }
            leaf.close().unwrap();
        }
        group.close().unwrap();
    }
    writer.into_inner().unwrap()
}

#[test]
fn keys_and_relationships_of_parquet_are_those_of_csv() {
    let mut compared = 0;
    for seed in 0..15 {
        let world = World::new(seed);
        let files: Vec<(String, Vec<u8>)> = world
            .files
            .iter()
            .map(|(name, text)| match name.strip_suffix(".csv") {
                Some(name) => (format!("{name}.parquet"), parquet(text)),
                None => (name.clone(), text.clone().into_bytes()),
            })
            .collect();
        compared += files.iter().filter(|(name, _)| name.ends_with(".parquet")).count();
        let (said, stored) = (describe(&world.files), describe(&files));
        let renamed = |found: std::collections::BTreeSet<String>| {
            found.into_iter().map(|one| one.replace(".csv", ".parquet")).collect()
        };
        assert_eq!(relationships(&stored), renamed(relationships(&said)), "seed {seed}");
        assert_eq!(keys(&stored), renamed(keys(&said)), "seed {seed}");
    }
    assert!(compared > 10, "{compared} tables");
}
