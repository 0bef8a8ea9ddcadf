//! Files that the three libraries do not write: of old writers, with statistics that are cut
//! short, damaged, or meant to take for ever.

use std::sync::Arc;

use belljar_dataset::{Dataset, Field, What};
use parquet::basic::Compression;
use parquet::data_type::{ByteArray, ByteArrayType, Int32Type};
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedColumnWriter, SerializedFileWriter};
use parquet::schema::parser::parse_message_type;

/// Writes one row group; `column` writes each leaf in turn.
fn file(
    schema: &str,
    properties: WriterProperties,
    mut column: impl FnMut(usize, &mut SerializedColumnWriter<'_>),
) -> Vec<u8> {
    let schema = Arc::new(parse_message_type(schema).unwrap());
    let mut writer = SerializedFileWriter::new(Vec::new(), schema, Arc::new(properties)).unwrap();
    let mut group = writer.next_row_group().unwrap();
    let mut number = 0;
    while let Some(mut leaf) = group.next_column().unwrap() {
        column(number, &mut leaf);
        leaf.close().unwrap();
        number += 1;
    }
    group.close().unwrap();
    writer.into_inner().unwrap()
}

fn plain() -> WriterProperties {
    WriterProperties::builder().build()
}

fn described(bytes: &[u8]) -> Dataset {
    super::describe_bytes("x.parquet", bytes).unwrap().datasets.remove(0)
}

fn at<'a>(dataset: &'a Dataset, path: &[&str]) -> &'a Field {
    path.iter().fold(&dataset.root, |field, name| match *name {
        "[]" => field.item.as_deref().unwrap(),
        name => field.fields.iter().find(|below| below.name == name).unwrap(),
    })
}

#[track_caller]
fn has(dataset: &Dataset, want: What) {
    assert!(dataset.problems.iter().any(|problem| problem.what == want), "{:?}", dataset.problems);
}

/// The three forms of lists without a group for each item, and a field that is only repeated.
#[test]
fn lists_of_old_writers_are_lists() {
    let schemas = [
        ("optional group a (LIST) { repeated int32 element; }", 2),
        ("optional group a (LIST) { repeated group array { required int32 x; } }", 2),
        ("optional group a (LIST) { repeated group a_tuple { required int32 x; } }", 2),
        ("optional group a (LIST) { repeated group list { required int32 x; } }", 2),
        ("repeated int32 a;", 1),
    ];
    for (schema, def) in schemas {
        // [1, 2], [], [3]
        let bytes = file(&format!("message m {{ {schema} }}"), plain(), |_, leaf| {
            let levels = (&[def, def, def - 1, def][..], &[0, 1, 0, 0][..]);
            leaf.typed::<Int32Type>()
                .write_batch(&[1, 2, 3], Some(levels.0), Some(levels.1))
                .unwrap();
        });
        let dataset = described(&bytes);
        let list = at(&dataset, &["a"]);
        assert_eq!((dataset.rows, list.types.array, list.types.null), (3, 3, 0), "{schema}");
        let lengths = list.lengths.unwrap();
        assert_eq!((lengths.shortest, lengths.longest), (0, 2), "{schema}");
        let is_object = schema.contains("array") || schema.contains("tuple");
        let item = at(&dataset, if is_object { &["a", "[]", "x"] } else { &["a", "[]"] });
        assert_eq!((item.types.int, item.numbers.unwrap().max), (3, 3.0), "{schema}");
    }
}

/// Types by the names that files had before there were logical types.
#[test]
fn converted_types_of_old_writers_are_read() {
    let schema = "message m { required int32 u (UINT_32); required int32 d (DATE);
        required binary t (UTF8); required int32 c (DECIMAL(9, 2)); required binary plain; }";
    let bytes = file(schema, plain(), |number, leaf| match number {
        2 | 4 => {
            leaf.typed::<ByteArrayType>()
                .write_batch(&[ByteArray::from("text")], None, None)
                .map(drop)
                .unwrap();
        }
        _ => leaf.typed::<Int32Type>().write_batch(&[-1], None, None).map(drop).unwrap(),
    });
    let dataset = described(&bytes);
    let stored: Vec<_> =
        dataset.root.fields.iter().map(|field| field.stored_as.as_deref().unwrap()).collect();
    assert_eq!(stored, ["uint32", "date", "string", "decimal(9, 2)", "binary"]);
    assert_eq!(at(&dataset, &["u"]).numbers.unwrap().max, 4_294_967_295.0);
    assert_eq!(at(&dataset, &["d"]).dates.as_ref().unwrap().first, "1969-12-31");
    assert_eq!(at(&dataset, &["c"]).values, [("-0.01".to_owned(), 1)]);
    assert_eq!(at(&dataset, &["plain"]).values, [("text".to_owned(), 1)]);
}

/// The maximum in the statistics is `zzzzzz{`: in no row.
#[test]
fn statistics_that_are_cut_short_are_never_shown() {
    let properties = WriterProperties::builder().set_statistics_truncate_length(Some(7)).build();
    let texts: Vec<String> = (0..60).map(|n| format!("{}{n:03}", "z".repeat(20))).collect();
    let values: Vec<ByteArray> = texts.iter().map(|text| ByteArray::from(text.as_str())).collect();
    let bytes = file("message m { required binary t (UTF8); }", properties, |_, leaf| {
        leaf.typed::<ByteArrayType>().write_batch(&values, None, None).unwrap();
    });
    assert!(bytes.windows(7).any(|window| window == b"zzzzzz{"), "the file has no such maximum");
    let dataset = described(&bytes);
    let field = at(&dataset, &["t"]);
    assert_eq!(field.samples, texts[..3]);
    assert_eq!(field.text.unwrap().longest, 23);
}

fn numbers() -> Vec<u8> {
    let properties = WriterProperties::builder().set_compression(Compression::SNAPPY).build();
    let values: Vec<i32> = (0..5000).map(|n| n * 7919 % 5000).collect();
    file("message m { required int32 a; required int32 b; }", properties, |_, leaf| {
        leaf.typed::<Int32Type>().write_batch(&values, None, None).unwrap();
    })
}

#[test]
fn a_damaged_page_is_told_and_the_rest_is_described() {
    let mut bytes = numbers();
    // The header of the first page.
    bytes[4..24].fill(0xff);
    let dataset = described(&bytes);
    has(&dataset, What::UnreadPages);
    let (a, b) = (at(&dataset, &["a"]), at(&dataset, &["b"]));
    assert!(a.types.int < 5000, "{:?}", a.types);
    assert_eq!((dataset.rows, b.types.int, b.numbers.unwrap().max), (5000, 5000, 4999.0));
}

#[test]
fn a_file_that_is_cut_short_or_encrypted_is_refused() {
    let bytes = numbers();
    let why = |bytes: &[u8]| super::describe_bytes("x.parquet", bytes).unwrap_err().to_string();
    assert!(why(&bytes[..bytes.len() / 2]).contains("no footer"));
    let mut encrypted = bytes.clone();
    let end = encrypted.len();
    encrypted[end - 4..].copy_from_slice(b"PARE");
    assert!(why(&encrypted).contains("encrypted"));
    let mut long = bytes;
    long[end - 8..end - 4].copy_from_slice(&u32::MAX.to_le_bytes());
    assert!(why(&long).contains("too long"));
}

/// Columns beyond what is kept of a table, and objects in objects in objects.
#[test]
fn columns_without_end_stay_bounded() {
    let columns: Vec<String> = (0..3000).map(|n| format!("required int32 c{n};")).collect();
    let bytes = file(&format!("message m {{ {} }}", columns.concat()), plain(), |_, leaf| {
        leaf.typed::<Int32Type>().write_batch(&[1], None, None).unwrap();
    });
    let dataset = described(&bytes);
    has(&dataset, What::TooManyKeys);
    assert_eq!(dataset.root.fields.len(), 1024);
    let (open, close) = ("required group g { ".repeat(60), "} ".repeat(60));
    let schema = format!("message m {{ {open} required int32 x; {close} required int32 y; }}");
    let bytes = file(&schema, plain(), |_, leaf| {
        leaf.typed::<Int32Type>().write_batch(&[5], None, None).unwrap();
    });
    let dataset = described(&bytes);
    has(&dataset, What::TooDeep);
    assert_eq!(at(&dataset, &["y"]).values, [("5".to_owned(), 1)]);
}
