//! Requirements: D4

mod joined;

use std::fs;

use belljar_objects::Shelf;
use expect_test::expect;
use tempfile::TempDir;

use super::*;
use crate::data::shelve_files;

const ROOMY: Room = copying(1 << 30, 1 << 30);

/// A room into which files are copied.
const fn copying(memory_bytes: u64, disk_bytes: u64) -> Room {
    Room { memory_bytes, disk_bytes, data: Brought::Copied }
}

struct Place {
    dir: TempDir,
    shelf: Shelf,
}

impl Place {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let shelf = Shelf::new(dir.path().join("shelf"));
        Self { dir, shelf }
    }

    fn put(&self, name: &str, content: &str) -> Item {
        let path = self.dir.path().join(name);
        fs::write(&path, content).unwrap();
        shelve_files(&self.shelf, std::slice::from_ref(&path)).unwrap().remove(0)
    }

    async fn read(&self, item: &Item) -> String {
        std::io::read_to_string(Depot::open(&self.shelf, item).await.unwrap()).unwrap()
    }

    async fn plan(&self, items: &[Item], room: Room) -> Result<Plan, PlanError> {
        Plan::new(items.to_vec(), room, None, &self.shelf).await
    }
}

/// A list of records of about a hundred bytes each.
fn list(records: usize) -> String {
    let record =
        |n| format!("{{\n  \"id\": {n},\n  \"text\": \"{:<70}\"\n}}", format!("record {n}"));
    format!("[{}]", (0..records).map(record).collect::<Vec<_>>().join(",\n"))
}

#[tokio::test]
async fn what_does_not_fit_into_memory_is_said() {
    let place = Place::new();
    let items = [
        place.put("a.json", &list(100)),
        place.put("b.csv", &format!("x\n{}", "1234567\n".repeat(6_000))),
        place.put("c.jsonl", &"{\"id\":1}\n".repeat(30_000)),
        place.put("d.json", "{\"settings\": true}"),
        place.put("notes.txt", "n"),
    ];
    let plan = place.plan(&items, copying(1_600_000, 1 << 30)).await.unwrap();
    expect![[r#"
        # Datasets

        - `/mnt/data/a.json`: 9,990 bytes. load_data() loads all of it as `a`. What is inside could not be described: look first.
        - `/mnt/data/b.csv`: 48,002 bytes. load_data() loads all of it as `b`. What is inside could not be described: look first.
        - `/mnt/data/c.jsonl`: 270,000 bytes. It does not fit into memory. load_data() offers it as `c` by parts: `c.chunks()`, `c.columns_only([...])`, `c.query(sql)`. What is inside could not be described: look first.
        - `/mnt/data/d.json`: 18 bytes. load_data() loads all of it as `d`. What is inside could not be described: look first.
        - `/mnt/data/notes.txt`: 1 bytes. load_data() does not load it: read as much of the file as fits into memory."#]]
    .assert_eq(&plan.describe());
    let manifest: serde_json::Value = serde_json::from_str(&plan.manifest()).unwrap();
    assert_eq!(manifest.get("guards"), None, "all are on");
    let guards = |joins, dates| {
        let guards = event::Guards { joins, dates, ..event::Guards::default() };
        let manifest = plan.clone().guarded_by(guards).manifest();
        serde_json::from_str::<serde_json::Value>(&manifest).unwrap()["guards"].clone()
    };
    assert_eq!(guards(false, true), serde_json::json!({ "joins": false, "dates": true }));
    assert_eq!(guards(false, false), false);
    let loaded = manifest["datasets"].as_array().unwrap();
    let named: Vec<_> = loaded.iter().map(|one| (&one["name"], &one["strategy"])).collect();
    assert_eq!(named.len(), 4, "{named:?}");
    // What is read by parts says that it takes more than there is.
    assert!(loaded[2]["memory"].as_u64() > manifest["budget"].as_u64(), "{manifest}");
}

#[tokio::test]
async fn small_data_is_loaded_whole_and_left_alone() {
    let place = Place::new();
    let items =
        [place.put("a.json", &list(10)), place.put("b.csv", "x\n1\n"), place.put("c.parquet", "")];
    let plan = place.plan(&items, ROOMY).await.unwrap();
    assert!(plan.parts.iter().all(|part| part.strategy == Strategy::Whole), "{plan:?}");
    assert!(plan.items().eq(&items), "{plan:?}");
    assert!(place.plan(&[], ROOMY).await.unwrap().parts.is_empty());
}

#[tokio::test]
async fn a_document_that_has_to_be_read_by_parts_becomes_lines() {
    let place = Place::new();
    let text = list(5_000);
    let item = place.put("deals.json", &text);
    let plan = place.plan(&[item], copying(3 << 20, 1 << 30)).await.unwrap();
    let part = &plan.parts[0];
    assert_eq!((part.strategy, part.item().name.as_str()), (Strategy::Parts, "deals.jsonl"));
    let lines = place.read(part.item()).await;
    assert_eq!(lines.lines().count(), 5_000);
    // Nothing is lost.
    let all: Vec<serde_json::Value> = serde_json::from_str(&text).unwrap();
    let kept = lines.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
    assert!(kept.eq(all));
    let manifest: serde_json::Value = serde_json::from_str(&plan.manifest()).unwrap();
    let entry = &manifest["datasets"][0];
    assert_eq!((&entry["name"], &entry["path"]), (&"deals.json".into(), &"deals.jsonl".into()));
    assert_eq!((&entry["format"], &entry["strategy"]), (&"jsonl".into(), &"converted".into()));
}

#[tokio::test]
async fn what_does_not_fit_as_a_file_is_sampled_until_it_can_be_loaded() {
    let place = Place::new();
    let items = [place.put("deals.json", &list(20_000)), place.put("owners.csv", "id\n1\n")];
    let room = copying(2 << 20, 1 << 30);
    let plan = place.plan(&items, room).await.unwrap();
    let [deals, owners] = &plan.parts[..] else { panic!("{plan:?}") };
    assert_eq!((owners.item(), owners.strategy), (&items[1], Strategy::Whole));
    assert_eq!(deals.strategy, Strategy::Whole, "{deals:?}");
    let drawn = deals.drawn.as_ref().unwrap();
    assert_eq!(drawn.records, 20_000);
    let lines = place.read(deals.item()).await;
    assert_eq!(lines.lines().count() as u64, drawn.kept);
    assert!(drawn.kept > 100 && deals.peak <= plan.budget, "{deals:?}");
    let said = plan.describe();
    let counts = format!("{} of the 20,000 records of deals.json", counted(drawn.kept));
    assert!(said.contains(&counts) && said.contains("SAMPLE"), "{said}");
    let manifest: serde_json::Value = serde_json::from_str(&plan.manifest()).unwrap();
    let entry = &manifest["datasets"][0];
    assert_eq!((&entry["strategy"], &entry["variable"]), (&"sampled".into(), &"deals".into()));
    assert_eq!(entry["path"], "deals.sample.jsonl");
    // The same in every run.
    assert_eq!(place.plan(&items, room).await.unwrap(), plan);
}

#[tokio::test]
async fn what_cannot_be_made_smaller_is_refused_before_the_run() {
    let place = Place::new();
    let room = copying(1 << 20, 1 << 30);
    for (name, content) in [
        ("a.parquet", "PAR1".repeat(1 << 18)),
        ("b.json", format!("{{\"a\": \"{}\"}}", "x".repeat(1 << 20))),
    ] {
        let refused = place.plan(&[place.put(name, &content)], room).await;
        let Err(PlanError::TooLarge { name: large, .. }) = refused else { panic!("{refused:?}") };
        assert_eq!(large, name);
    }
}

#[tokio::test]
async fn what_is_mounted_stays_as_it_is_unless_there_are_too_many_files() {
    let place = Place::new();
    let room = Room { data: Brought::Mounted, ..copying(2 << 20, 64 << 10) };
    let large = place.put("large.csv", &format!("x\n{}", "1234567\n".repeat(500_000)));
    let mut items = vec![large.clone()];
    items.extend((2..MOST_FILES).map(|n| place.put(&format!("n{n}.csv"), "x\n1\n")));
    let plan = place.plan(&items, room).await.unwrap();
    assert!(plan.items().eq(&items), "{plan:?}");
    assert_eq!(plan.parts[0].strategy, Strategy::Parts);
    items.push(place.put("last.csv", "x\n1\n"));
    let plan = place.plan(&items, room).await.unwrap();
    assert!(plan.parts[0].is_sample() && plan.parts[1..].iter().all(|part| !part.is_sample()));
}
