//! Thousands of files that are nearly right: none may do more than be refused.

use super::{describe, try_describe};

struct Numbers(u64);

impl Numbers {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((mixed ^ (mixed >> 31)) % bound as u64).unwrap()
    }
}

const SEEDS: [(&str, &str); 4] = [
    (
        "x.json",
        r#"[{"id":"a_1","n":-1.5e3,"t":"2026-03-20T10:00:00Z","d":{"k1":[1,{"x":null}],"k2":[true,"\u00e9\n"]}},{"id":"a_2"}]"#,
    ),
    (
        "x.jsonl",
        "{\"id\":1,\"of\":2}\n{\"id\":2,\"of\":1}\r\n\n{\"id\":3,\"of\":[{\"deep\":{\"er\":1}}]}\n",
    ),
    ("x.csv", "id,name,at\n1,\"a \"\"b\"\" c\",2026-01-01\n2,\"two\nlines\",01/02/2026\n3,,\n"),
    ("x.tsv", "id\tparent_id\n001\t\n002\t001\n003\t001\n"),
];

const SPICE: [&[u8]; 12] =
    [b"\"", b"\\", b"{", b"}", b"[", b"]", b",", b"\n", b"\\u", b"NaN", b"\xff", b"1e999"];

fn mutate(numbers: &mut Numbers, seed: &[u8]) -> Vec<u8> {
    let mut bytes = seed.to_vec();
    for _ in 0..=numbers.below(5) {
        let at = numbers.below(bytes.len() + 1);
        match numbers.below(5) {
            0 if at < bytes.len() => bytes[at] = u8::try_from(numbers.below(256)).unwrap(),
            1 if at < bytes.len() => drop(bytes.remove(at)),
            2 => bytes.truncate(at),
            3 => {
                let from = numbers.below(seed.len());
                bytes.splice(at..at, seed[from..].iter().copied());
            }
            _ => drop(bytes.splice(at..at, SPICE[numbers.below(SPICE.len())].iter().copied())),
        }
    }
    bytes
}

#[test]
fn changed_files_are_described_or_refused() {
    let mut numbers = Numbers(0x8e11_ba55);
    let mut described = 0;
    for _ in 0..4000 {
        let (name, seed) = SEEDS[numbers.below(SEEDS.len())];
        let bytes = mutate(&mut numbers, seed.as_bytes());
        let Ok(description) = try_describe(&[(name, &bytes)], 1 + numbers.below(2)) else {
            continue;
        };
        described += 1;
        assert!(description.to_text(300).is_char_boundary(0));
        assert!(description.to_svg().ends_with("</svg>\n"));
        let json = serde_json::to_string(&description).unwrap();
        assert!(serde_json::from_str::<belljar_dataset::Description>(&json).is_ok());
    }
    assert!(described > 2000, "{described}");
    assert_eq!(describe(&[(SEEDS[0].0, SEEDS[0].1.as_bytes())]).datasets[0].rows, 2);
}
