use super::*;

/// Writes the compact protocol.
#[derive(Default)]
struct Writer(Vec<u8>);

impl Writer {
    fn varint(&mut self, mut value: u64) {
        while value > 0x7f {
            self.0.push(u8::try_from(value & 0x7f).unwrap() | 0x80);
            value >>= 7;
        }
        self.0.push(u8::try_from(value).unwrap());
    }

    fn field(&mut self, delta: u8, kind: u8) -> &mut Self {
        self.0.push(delta << 4 | kind);
        self
    }

    fn int(&mut self, delta: u8, value: i64) -> &mut Self {
        self.field(delta, 6).varint(((value << 1) ^ (value >> 63)).cast_unsigned());
        self
    }

    fn binary(&mut self, delta: u8, bytes: &[u8]) -> &mut Self {
        self.field(delta, 8).varint(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
        self
    }

    fn list(&mut self, delta: u8, structs: &[Vec<u8>]) -> &mut Self {
        self.field(delta, 9).0.push(0xf0 | 12);
        self.varint(structs.len() as u64);
        structs.iter().for_each(|one| self.0.extend_from_slice(one));
        self
    }

    fn end(&mut self) -> Vec<u8> {
        self.0.push(0);
        std::mem::take(&mut self.0)
    }
}

fn group(name: &str, repetition: i64, children: i64, converted: Option<i64>) -> Vec<u8> {
    let mut out = Writer::default();
    out.int(3, repetition).binary(1, name.as_bytes()).int(1, children);
    if let Some(code) = converted {
        out.int(1, code);
    }
    out.end()
}

fn leaf(name: &str, physical: i64, converted: Option<i64>) -> Vec<u8> {
    let mut out = Writer::default();
    out.int(1, physical).int(2, 1).binary(1, name.as_bytes());
    if let Some(code) = converted {
        out.int(2, code);
    }
    out.end()
}

fn column(values: i64, nulls: i64, range: Option<(&[u8], &[u8])>) -> Vec<u8> {
    let mut statistics = Writer::default();
    statistics.int(3, nulls);
    if let Some((min, max)) = range {
        statistics.binary(2, max).binary(1, min);
    }
    let statistics = statistics.end();
    let mut meta = Writer::default();
    meta.int(5, values).field(7, 12).0.extend_from_slice(&statistics);
    let meta = meta.end();
    let mut chunk = Writer::default();
    chunk.field(3, 12).0.extend_from_slice(&meta);
    chunk.end()
}

fn footer() -> Vec<u8> {
    let schema = [
        group("schema", 0, 4, None),
        leaf("id", 2, None),
        leaf("day", 1, Some(6)),
        leaf("name", 6, Some(0)),
        group("tags", 1, 1, Some(3)),
        group("list", 2, 1, None),
        leaf("element", 6, Some(0)),
    ];
    let ints = |n: i64| n.to_le_bytes().to_vec();
    let days = |n: i32| n.to_le_bytes().to_vec();
    let row_group = |from: i64, until: i64| {
        let columns = [
            column(100, 0, Some((&ints(from), &ints(until)))),
            column(100, 10, Some((&days(20_000), &days(20_100)))),
            column(100, 0, Some((b"Ann", b"Zoe"))),
            column(300, 0, None),
        ];
        Writer::default().list(1, &columns).end()
    };
    let mut out = Writer::default();
    out.int(1, 2).list(1, &schema).int(1, 200).list(1, &[row_group(5, 50), row_group(-7, 20)]);
    out.end()
}

#[test]
fn a_footer_tells_names_types_nulls_and_ranges_over_all_row_groups() {
    let told = read(&footer()).unwrap();
    assert_eq!(told.rows, 200);
    let [id, day, name, tags] = &told.root.fields[..] else { panic!("{:?}", told.root) };
    assert_eq!((id.types.int, id.numbers.unwrap().min, id.numbers.unwrap().max), (200, -7.0, 50.0));
    assert_eq!((day.meaning.clone(), day.types.null), (Some(Meaning::Date), 20));
    assert_eq!(day.dates.as_ref().unwrap().last, "2025-01-12");
    assert_eq!(name.samples, ["Ann", "Zoe"]);
    assert_eq!((tags.types.array, tags.item.as_ref().unwrap().types.string), (200, 600));
}

#[test]
fn damaged_footers_are_refused_or_read_and_cost_nothing() {
    let whole = footer();
    for end in 0..whole.len() {
        assert!(read(&whole[..end]).is_none(), "{end}");
    }
    let mut state = 7u64;
    for _ in 0..20_000 {
        let mut bytes = whole.clone();
        for _ in 0..3 {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            let at = usize::try_from(state >> 33).unwrap() % bytes.len();
            bytes[at] = u8::try_from(state >> 24 & 0xff).unwrap();
        }
        drop(read(&bytes));
    }
    // Claims of endless lists, and of endless depth.
    assert!(read(&[0x29, 0xfc, 0xff, 0xff, 0xff, 0xff, 0x0f]).is_none());
    assert!(read(&[0x1c; 100_000]).is_none());
}
