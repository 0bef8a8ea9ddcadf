//! The same table, however it is written.

use std::io::Write as _;

use belljar_dataset::{Compression, DateGrain, Encoding, Meaning};

use super::{at, describe, one};

fn gzip(text: &[u8]) -> Vec<u8> {
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    packed.write_all(text).unwrap();
    packed.finish().unwrap()
}

#[test]
fn text_is_read_in_the_encoding_that_it_has() {
    let text = "city,units\nKöln,3\nZürich,4\nKöln,5\n";
    let latin: Vec<u8> = text.chars().map(|c| u8::try_from(c).unwrap()).collect();
    let windows = [&latin[..], b"\x80 shop,6\n"].concat();
    let utf16: Vec<u8> = "\u{feff}"
        .chars()
        .chain(text.chars())
        .collect::<String>()
        .encode_utf16()
        .flat_map(u16::to_le_bytes)
        .collect();
    for (bytes, encoding) in [
        (latin.clone(), Encoding::Latin1),
        (utf16.clone(), Encoding::Utf16 { is_big: false }),
        (gzip(&latin), Encoding::Latin1),
        (windows, Encoding::Windows1252),
    ] {
        let dataset = one("cities.csv", bytes);
        assert_eq!(dataset.encoding, encoding);
        assert_eq!(at(&dataset, "city").values[0], ("Köln".to_owned(), 2));
        assert!(at(&dataset, "units").types.int >= 3 && dataset.problems.is_empty());
    }
    let windows = one("x.csv", b"price\n5 \x80\n6 \x80\n");
    assert_eq!(at(&windows, "price").samples, ["5 €", "6 €"]);
    let said = describe(&[("cities.csv", &utf16)]).to_text(4000);
    assert!(said.contains("(cities.csv, CSV, UTF-16, "), "{said}");
    // JSON is text as well.
    let dataset = one("x.json", b"[{\"city\": \"K\xf6ln\"}]");
    assert_eq!(at(&dataset, "city").values[0].0, "Köln");
}

#[test]
fn compressed_files_are_described_as_what_is_inside() {
    let lines: String = (0..5000).map(|n| format!("{{\"id\":{n},\"of\":{}}}\n", n % 7)).collect();
    for (packed, compression) in [
        (gzip(lines.as_bytes()), Compression::Gzip),
        (zstd::encode_all(lines.as_bytes(), 1).unwrap(), Compression::Zstd),
    ] {
        let dataset = one("events.jsonl.gz", &packed);
        assert_eq!((dataset.rows, dataset.compression), (5000, Some(compression)));
        assert_eq!(dataset.text_bytes, Some(lines.len() as u64));
        assert_eq!(dataset.bytes, packed.len() as u64);
        assert_eq!(dataset.content_hash.as_deref(), Some(&*blake3(&packed)));
        assert_eq!(dataset.keys[0].columns, ["id"]);
    }
}

fn blake3(bytes: &[u8]) -> String {
    blake3::hash(bytes).to_hex().to_string()
}

#[test]
fn numbers_with_decimal_commas_are_numbers() {
    let table = "id;price;share;version;at\n1;12,50;0,125;1.2;20.03.2026\n\
                 2;1.234,00;1,5;1.10;1.4.2026\n3;7;;n/a;31.12.2025\n";
    let dataset = one("prices.csv", table);
    let price = at(&dataset, "price");
    assert!(price.has_decimal_commas && price.types.string == 0);
    let numbers = price.numbers.unwrap();
    assert_eq!((numbers.min, numbers.max), (7.0, 1234.0));
    assert!(at(&dataset, "share").has_decimal_commas);
    assert_eq!(at(&dataset, "share").types.null, 1);
    assert!(!at(&dataset, "version").has_decimal_commas);
    let dates = at(&dataset, "at").dates.clone().unwrap();
    assert_eq!(at(&dataset, "at").meaning, Some(Meaning::DateDotted));
    assert_eq!((&*dates.first, &*dates.last), ("2025-12-31", "2026-04-01"));
    assert_eq!(dates.grain, DateGrain::Day);
    let said = describe(&[("prices.csv", table.as_bytes())]).to_text(4000);
    assert!(said.contains("date as string, DD.MM.YYYY"), "{said}");
    assert!(said.contains("decimal commas in the file, loaded as numbers"), "{said}");
    // Commas before decimals separate nothing, even where there are as many of them.
    let dataset = one("x.csv", "1;12,5;3,5\n2;7,25;4,5\n");
    assert_eq!(dataset.dialect.unwrap().delimiter, b';');
    assert_eq!(at(&dataset, "column_2").numbers.unwrap().max, 12.5);
    assert_eq!(one("x.csv", "1,a;b\n2,c;d\n").dialect.unwrap().delimiter, b',');
    // Thousands as they are written in English stay texts.
    let dataset = one("x.csv", "n,of\n\"1,234\",a\n\"2,345\",b\n");
    assert_eq!(at(&dataset, "n").types.string, 2);
    let dataset = one("x.csv", "n;of\n1,234;a\n2,345;b\n");
    assert_eq!(at(&dataset, "n").numbers.unwrap().max, 2.345);
}

#[test]
fn cells_are_what_pandas_makes_of_them() {
    let dataset = one("x.csv", "\n a , a,\n 1,+2,n/a\n \n2 ,-inf,\n");
    assert_eq!(dataset.rows, 2);
    let dialect = dataset.dialect.unwrap();
    assert!(dialect.has_header && dialect.is_renamed);
    let columns: Vec<_> = dataset.root.fields.iter().map(|field| &*field.name).collect();
    assert_eq!(columns, ["a", "a.1", "Unnamed: 2"]);
    let types: Vec<_> = dataset.root.fields.iter().map(|field| field.types).collect();
    assert_eq!((types[0].int, types[1].float, types[2].null), (2, 1, 2));
    // Blank lines are no records, in a table of one column either.
    assert_eq!(one("x.csv", "n\n1\n\n2\n\n").rows, 2);
    assert!(!one("x.csv", "a,b\n1,2\n").dialect.unwrap().is_renamed);
    // As Excel on a Mac writes it.
    assert_eq!(one("x.csv", "a,b\r1,2\r3,4\r").rows, 2);
}

#[test]
fn a_count_of_values_is_never_larger_than_that_of_rows_and_a_key_has_as_many() {
    for rows in [300, 400, 700, 5000] {
        let mixed = |n: u64| n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20;
        let lines: String =
            (0..rows).map(|n| format!("o{},{}.5\n", mixed(n), mixed(n + rows))).collect();
        let dataset = one("orders.csv", format!("order_id,revenue\n{lines}"));
        let (id, revenue) = (at(&dataset, "order_id"), at(&dataset, "revenue"));
        assert_eq!((id.distinct, id.distinct_is_exact), (Some(rows), true), "{rows}");
        assert!(revenue.distinct.unwrap() <= rows, "{rows}: {:?}", revenue.distinct);
    }
}

#[test]
fn ids_that_come_again_are_told_and_a_near_miss_leads_to_them() {
    let customers: String = (0..85).map(|n| format!("C{:03},name {n}\n", n % 80)).collect();
    let orders: String = (0..200).map(|n| format!("{n},c{:03}\n", n % 80)).collect();
    let files = [
        ("customers.csv", format!("customer_id,name\n{customers}")),
        ("orders.csv", format!("order_id,customer\n{orders}")),
    ];
    let described = describe(&files.each_ref().map(|(name, text)| (*name, text.as_bytes())));
    let repeated = &described.datasets[0].repeated_ids[0];
    assert_eq!((&*repeated.column, repeated.distinct, repeated.rows), ("customer_id", 80, 85));
    let id = at(&described.datasets[0], "customer_id");
    assert_eq!((id.distinct, id.distinct_is_exact), (Some(80), true));
    let said = described.to_text(4000);
    let told = "no key: customer_id comes again, 80 different values in 85 records";
    assert!(said.contains(told), "{said}");
    assert!(said.contains("0 % of the values match, 100 % ignoring case"), "{said}");
    assert_eq!(described.datasets[1].repeated_ids, []);
}
