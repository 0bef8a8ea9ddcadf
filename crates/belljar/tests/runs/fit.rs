//! Data that is larger than a sandbox has memory for, and figures about runs.
//!
//! Requirements: D4

use std::fmt::Write as _;
use std::path::Path;

use belljar_domain::data::MOST_FILES;
use belljar_scripted::Model;

use crate::ask::{Asked, belljar, newest, scripted};
use crate::world::{MODEL, TEMPLATE, World};

/// So many records of about 300 bytes, as one list.
fn list(records: usize) -> String {
    let mut text = "[".to_owned();
    for n in 0..records {
        let mark = if n == 0 { "" } else { "," };
        let region = ["north", "south", "east", "west"][n % 4];
        write!(text, "{mark}\n{{\"id\": {n}, \"region\": \"{region}\", \"amount\": {}, ", n % 100)
            .unwrap();
        write!(text, "\"owner\": {{\"name\": \"rep {}\"}}, \"note\": \"{:<200}\"}}", n % 7, n)
            .unwrap();
    }
    text + "\n]"
}

/// Asks about so many records in a sandbox that has 128 MB for all.
async fn asked(place: &Path, model: &Model, records: usize, more: &[&str]) -> Asked {
    std::fs::write(place.join("deals.json"), list(records)).unwrap();
    let url = format!("http://{}", model.address());
    let ask = ["ask", "How much?", "--model", MODEL, "--model-url", &url, "--template", TEMPLATE];
    let room = ["--memory", "128M", "--out", "out", "--data", "deals.json"];
    let asked = belljar(place, &[&ask[..], &room[..], more].concat()).await;
    assert_eq!(asked.status, Some(0), "{}{}", asked.stdout, asked.stderr);
    asked
}

/// About 150 MB.
const RECORDS: usize = 500_000;

pub(crate) async fn data_larger_than_the_sandbox_is_shown_and_nothing_is_lost(world: &World) {
    const SCRIPT: &str = r#"
        [[turn]]
        call = [{ tool = "execute_python", input = { code = "load_data()\ntotal = sum(int(part.amount.sum()) for part in deals.chunks(10_000))\nprint(total)" } }]
        [[turn]]
        call = [{ tool = "finish", input = { answer = "Total {{result}}" } }]
    "#;
    let place = tempfile::tempdir_in(world.directory.path()).unwrap();
    let model = scripted(SCRIPT).await;
    let asked = asked(place.path(), &model, RECORDS, &[]).await;
    assert!(asked.stderr.contains(", data mounted"), "{}", asked.stderr);
    let total: usize = (0..RECORDS).map(|n| n % 100).sum();
    let is_said = asked.stdout.lines().any(|line| line.trim() == total.to_string());
    assert!(is_said, "no {total} in {}", asked.stdout);
}

pub(crate) async fn data_that_has_to_be_copied_is_sampled_and_the_model_is_told(world: &World) {
    const SCRIPT: &str = r#"
        [[turn]]
        call = [{ tool = "execute_python", input = { code = "load_data()\nprint(len(deals), deals.amount.mean(), sorted(deals.region.unique()), sorted(deals.owner[0]))" } }]
        [[turn]]
        call = [{ tool = "finish", input = { answer = "{{result}}" } }]
    "#;
    let place = tempfile::tempdir_in(world.directory.path()).unwrap();
    let place = place.path();
    // With these there are more files than a sandbox is shown.
    let others: Vec<String> = (1..MOST_FILES).map(|n| format!("n{n}.csv")).collect();
    others.iter().for_each(|name| std::fs::write(place.join(name), "x\n1\n").unwrap());
    let others: Vec<&str> = others.iter().map(String::as_str).collect();
    let model = scripted(SCRIPT).await;
    let asked = asked(place, &model, RECORDS, &others).await;
    assert!(asked.stderr.contains(", data copied"), "{}", asked.stderr);
    let line = asked.stdout.lines().find(|line| line.contains("['east'"));
    let line = line.unwrap_or_else(|| panic!("{}{}", asked.stdout, asked.stderr));
    let mut words = line.split_whitespace();
    let kept: usize = words.next().unwrap().parse().unwrap();
    let mean: f64 = words.next().unwrap().parse().unwrap();
    // It was loaded whole, in a sandbox that could not have held the file.
    assert!((5_000..RECORDS / 4).contains(&kept), "{}", asked.stdout);
    // An honest sample: within five standard errors of 49.5.
    assert!(
        (mean - 49.5).abs() < 5.0 * 28.9 / f64::from(u32::try_from(kept).unwrap()).sqrt(),
        "{mean}"
    );
    assert!(line.ends_with("['east', 'north', 'south', 'west'] ['name']"), "{line}");
    let body = model.record().all()[0].body.clone().unwrap();
    let said = "of the 500,000 records of deals.json";
    assert!(body.contains("SAMPLE") && body.contains(said), "{body}");
    let run = newest(place).await;
    let shown = belljar(place, &["runs", "show", &run]).await;
    let counts = format!("deals.json ({kept} of {RECORDS} records)");
    for said in [counts.as_str(), ", data copied"] {
        assert!(shown.stdout.contains(said), "no {said} in {}", shown.stdout);
    }
}

pub(crate) async fn a_file_that_cannot_be_read_takes_nothing_from_the_others(world: &World) {
    const SCRIPT: &str = r#"
        [[turn]]
        call = [{ tool = "execute_python", input = { code = "load_data()\nprint(len(sales_csv), len(sales_json))" } }]
        [[turn]]
        call = [{ tool = "finish", input = { answer = "{{result}}" } }]
    "#;
    let place = tempfile::tempdir_in(world.directory.path()).unwrap();
    let place = place.path();
    // Two that would be called the same, and one that is something else.
    std::fs::write(place.join("sales.csv"), "quarter,total\n1,5\n2,6\n").unwrap();
    std::fs::write(place.join("sales.json"), "[{\"reached\": 1}]").unwrap();
    std::fs::write(place.join("packed.json"), b"\x1f\x8b\x08 and so on").unwrap();
    let model = scripted(SCRIPT).await;
    let url = format!("http://{}", model.address());
    let ask = ["ask", "How many?", "--model", MODEL, "--model-url", &url, "--template", TEMPLATE];
    let data = ["--data", "sales.csv", "packed.json", "sales.json"];
    let asked = belljar(place, &[&ask[..], &data[..]].concat()).await;
    assert_eq!(asked.status, Some(0), "{}{}", asked.stdout, asked.stderr);
    assert!(asked.stdout.contains("2 1"), "{}", asked.stdout);
    assert!(asked.stderr.contains("gzip -t"), "{}", asked.stderr);
    let body = model.record().all()[0].body.clone().unwrap();
    for told in ["sales_csv (sales.csv", "quarter", "sales_json (sales.json", "reached"] {
        assert!(body.contains(told), "no {told} in {body}");
    }
    assert_eq!(body.matches("could not be described").count(), 1, "{body}");
}

pub(crate) async fn stats_count_what_the_logs_say(world: &World) {
    const SCRIPT: &str = r#"
        [[turn]]
        call = [{ tool = "execute_python", input = { code = "{}['id']" } }]
        usage = { input = 1000, output = 50, cached = 3000 }
        [[turn]]
        call = [{ tool = "finish", input = { answer = "Done." } }]
        usage = { input = 1000, output = 50, cached = 3000 }
    "#;
    let place = tempfile::tempdir_in(world.directory.path()).unwrap();
    let place = place.path();
    let model = scripted(SCRIPT).await;
    let url = format!("http://{}", model.address());
    let ask = ["ask", "What?", "--model", MODEL, "--model-url", &url, "--template", TEMPLATE];
    for turns in ["5", "1"] {
        belljar(place, &[&ask[..], &["--out", "out", "--retries", "0", "--turns", turns]].concat())
            .await;
    }
    let stats = belljar(place, &["runs", "stats", "--json"]).await;
    let stats: serde_json::Value = serde_json::from_str(&stats.stdout).unwrap();
    assert_eq!(stats["outcomes"], serde_json::json!({ "answered": 1, "exhausted": 1 }), "{stats}");
    assert_eq!((&stats["success_share"], &stats["turns"]["p95"]), (&0.5.into(), &2.0.into()));
    assert_eq!(stats["faults"], serde_json::json!({ "missing_key": 2 }), "{stats}");
    assert_eq!(stats["cached_token_share"], 0.75, "{stats}");
    assert!(stats["shared_prefix_share"].as_f64().unwrap() > 0.9, "{stats}");
    assert!(stats["nano_dollars"].as_u64().unwrap() > 0, "{stats}");
    let told = belljar(place, &["runs", "stats"]).await;
    let is_share = |line: &str| line.starts_with("answered ") && line.ends_with(" 50.0 %");
    assert!(told.stdout.lines().any(is_share), "{}", told.stdout);
}
