use super::*;

#[track_caller]
fn check(value: &impl Show, cell: Cell, want: &str) {
    let mut scratch = Scratch::default();
    match value.show(cell, &mut scratch) {
        Shown::Value(value) => assert_eq!(str::from_utf8(value.shown()), Ok(want)),
        other => panic!("{other:?}, not {want}"),
    }
}

#[test]
fn moments_are_written_as_iso_8601() {
    let millis = Cell::Timestamp { units: 1000, is_utc: true };
    let nanos = Cell::Timestamp { units: 1_000_000_000, is_utc: false };
    check(&1_774_015_200_000i64, millis, "2026-03-20T14:00:00Z");
    check(&1_774_015_200_250i64, millis, "2026-03-20T14:00:00.250Z");
    check(&-1i64, nanos, "1969-12-31T23:59:59.999999999");
    check(&-1i32, Cell::Date, "1969-12-31");
    check(&45_005_000_000i64, Cell::Time(1_000_000), "12:30:05");
    // What no calendar has is written all the same.
    for value in [i64::MIN, i64::MAX] {
        for units in [1000, 1_000_000, 1_000_000_000] {
            value.show(Cell::Timestamp { units, is_utc: true }, &mut Scratch::default());
        }
    }
    for value in [i32::MIN, i32::MAX] {
        value.show(Cell::Date, &mut Scratch::default());
    }
    let mut day = Int96::new();
    day.set_data(u32::MAX, u32::MAX, u32::MAX);
    day.show(Cell::Plain, &mut Scratch::default());
    day.set_data(0, 0, 2_440_589);
    check(&day, Cell::Plain, "1970-01-02T00:00:00");
}

#[test]
fn numbers_are_written_as_tables_write_them() {
    check(&-1i32, Cell::Unsigned, "4294967295");
    check(&-1i64, Cell::Unsigned, "18446744073709551615");
    check(&i64::MIN, Cell::Plain, "-9223372036854775808");
    check(&0.1f32, Cell::Plain, "0.1");
    check(&2.0f64, Cell::Plain, "2.0");
    check(&-0.5f64, Cell::Plain, "-0.5");
    check(&1e300f64, Cell::Plain, "1e300");
    check(&ByteArray::from(vec![0xff, 0xff]), Cell::Decimal(1), "-0.1");
    assert!(matches!(f64::NAN.show(Cell::Plain, &mut Scratch::default()), Shown::NotFinite));
}

#[test]
fn floats_of_16_bits_are_what_ieee_754_says() {
    let cases = [
        (0x3c00, 1.0),
        (0xc000, -2.0),
        (0x7bff, 65504.0),
        (0x0001, 2f64.powi(-24)),
        (0x0400, 2f64.powi(-14)),
    ];
    for (bits, want) in cases {
        assert_eq!(half(bits), want, "{bits:#x}");
    }
    assert!(half(0x7c00).is_infinite() && half(0x7e00).is_nan());
}

#[test]
fn bytes_that_are_no_text_are_shown_in_hexadecimal() {
    check(&ByteArray::from(vec![0, 0xff]), Cell::Plain, "0x00ff");
    check(&ByteArray::from("plain"), Cell::Plain, "plain");
    let uuid: Vec<u8> = (0..16).collect();
    check(&ByteArray::from(uuid), Cell::Uuid, "00010203-0405-0607-0809-0a0b0c0d0e0f");
    let interval = [1u32, 2, 3500].map(u32::to_le_bytes).concat();
    check(&ByteArray::from(interval), Cell::Interval, "P1M2DT3.500S");
    let long = ByteArray::from(vec![0xff; 5000]);
    let mut scratch = Scratch::default();
    match long.show(Cell::Plain, &mut scratch) {
        Shown::Value(Value::Text(text)) => assert_eq!((text.chars, text.is_whole), (5000, false)),
        other => panic!("{other:?}"),
    }
}
