//! `belljar ask` without a model: what fixed rules answer, and what they do not.
//!
//! Requirements: A9

use std::path::Path;

use belljar_agent::{Left, Settings};
use belljar_journal::event::{ErrorCategory, Outcome};

use crate::ask::{Asked, belljar};
use crate::world::{TEMPLATE, World, finished, turns};

const SALES: &str = "region,product,amount\nnorth,a,1\nsouth,b,5\nnorth,b,2\nnorth,a,1\n";

async fn ask(place: &Path, question: &str, more: &[&str]) -> Asked {
    let usual = ["ask", question, "--template", TEMPLATE, "--out", "out"];
    belljar(place, &[&usual[..], more].concat()).await
}

pub(crate) async fn warnings_are_no_part_of_what_the_rules_are_asked(world: &World) {
    let place = tempfile::tempdir_in(world.directory.path()).unwrap();
    let place = place.path();
    std::fs::write(place.join("sales.csv"), SALES).unwrap();
    let question = "What is the total amount by region?";
    for turns in ["2", "3", "30"] {
        let asked = ask(place, question, &["--turns", turns, "--data", "sales.csv"]).await;
        assert_eq!(asked.status, Some(0), "{turns}: {}{}", asked.stdout, asked.stderr);
        let first = "The sum of `amount` in `sales` for each `region`:";
        assert!(asked.stdout.starts_with(first), "{turns}: {}", asked.stdout);
        assert!(!asked.stdout.contains("played no part"), "{turns}: {}", asked.stdout);
        let result = std::fs::read_to_string(place.join("out/result.md")).unwrap();
        // An attempt that only had to finish wrote nothing but the answer; with turns to
        // spare there is the question, too.
        let asked = result.lines().filter_map(|line| line.strip_prefix("Question: "));
        let asked: Vec<&str> = asked.collect();
        assert!(asked.iter().all(|asked| *asked == question), "{turns}: {result}");
        assert!(turns != "30" || !asked.is_empty(), "{turns}: {result}");
        assert!(!result.contains("WARNING"), "{turns}: {result}");
    }
}

pub(crate) async fn what_the_rules_cannot_answer_is_no_success(world: &World) {
    let place = tempfile::tempdir_in(world.directory.path()).unwrap();
    let place = place.path();
    std::fs::write(place.join("sales.csv"), SALES).unwrap();
    std::fs::write(place.join("note.txt"), "the amount is 7").unwrap();
    std::fs::write(place.join("broken.json"), "[{\"amount\": 1}, ").unwrap();
    for (question, data, want) in [
        ("foo bar", "sales.csv", "The question is not understood: no word of it names anything"),
        ("What is the total amount?", "note.txt", "`note.txt` was not read"),
        ("What is the total amount?", "broken.json", "`broken.json` cannot be read"),
    ] {
        let asked = ask(place, question, &["--data", data]).await;
        assert_eq!(asked.status, Some(5), "{data}: {}{}", asked.stdout, asked.stderr);
        assert!(asked.stdout.contains(want), "{data}: {}", asked.stdout);
        let result = std::fs::read_to_string(place.join("out/result.md")).unwrap();
        assert!(result.contains(want), "{data}: {result}");
    }
    std::fs::write(place.join("header.csv"), "region,amount\n").unwrap();
    let asked = ask(place, "What is the total amount?", &["--data", "header.csv"]).await;
    assert_eq!(asked.status, Some(125), "{}{}", asked.stdout, asked.stderr);
    let told = "`header.csv` has a header (region, amount) and no rows";
    assert!(asked.stderr.contains(told), "{}", asked.stderr);
    for question in ["", " "] {
        let asked = ask(place, question, &["--data", "sales.csv"]).await;
        assert_eq!(asked.status, Some(2), "{}", asked.stderr);
        assert!(asked.stderr.contains("a question must not be empty"), "{}", asked.stderr);
    }
}

pub(crate) async fn the_rules_read_files_as_they_are_described(world: &World) {
    let place = tempfile::tempdir_in(world.directory.path()).unwrap();
    let place = place.path();
    let text = "region;amount\nKöln;1.200,50\nBern;3,25\nKöln;0,50\n";
    let latin: Vec<u8> = text.chars().map(|letter| u8::try_from(letter).unwrap()).collect();
    let utf16: Vec<u8> =
        format!("\u{feff}{text}").encode_utf16().flat_map(u16::to_le_bytes).collect();
    std::fs::write(place.join("latin.csv"), &latin).unwrap();
    std::fs::write(place.join("wide.csv"), &utf16).unwrap();
    std::fs::write(place.join("small.csv.zst"), zstd::encode_all(&*latin, 1).unwrap()).unwrap();
    for file in ["latin.csv", "wide.csv", "small.csv.zst"] {
        let asked = ask(place, "What is the total amount by region?", &["--data", file]).await;
        assert_eq!(asked.status, Some(0), "{file}: {}{}", asked.stdout, asked.stderr);
        assert!(asked.stdout.contains("| Köln | 1201 |"), "{file}: {}", asked.stdout);
    }
    // Columns without names are called what they are described as.
    std::fs::write(place.join("bare.csv"), "1,5\n2,7\n3,9\n").unwrap();
    let asked = ask(place, "What is the total column_2?", &["--data", "bare.csv"]).await;
    assert_eq!(asked.status, Some(0), "{}{}", asked.stdout, asked.stderr);
    assert!(asked.stdout.contains("21"), "{}", asked.stdout);
}

pub(crate) async fn rules_that_lack_memory_look_again_with_more(world: &World) {
    let place = tempfile::tempdir_in(world.directory.path()).unwrap();
    let place = place.path();
    let rows = 600_000;
    let mut text = "region,amount\n".to_owned();
    (0..rows).for_each(|row| text.push_str(["north,1\n", "south,2\n"][row % 2]));
    std::fs::write(place.join("sales.csv"), text).unwrap();
    let small = ["--memory", "160M", "--data", "sales.csv"];
    let at_once = [&small[..], &["--retries", "0"]].concat();
    let once = ask(place, "What is the total amount?", &at_once).await;
    assert_eq!(once.status, Some(5), "{}{}", once.stdout, once.stderr);
    assert!(once.stdout.contains("needed more memory"), "{}", once.stdout);
    let asked = ask(place, "What is the total amount?", &small).await;
    assert_eq!(asked.status, Some(0), "{}{}", asked.stdout, asked.stderr);
    assert!(asked.stdout.contains("| sum | 900000 |"), "{}", asked.stdout);
    assert!(asked.stderr.contains("320 MB of memory"), "{}", asked.stderr);
}

pub(crate) async fn a_template_without_an_interpreter_ends_the_run(world: &World) {
    let has_ipython = std::process::Command::new("python3").args(["-c", "import IPython"]).output();
    if has_ipython.is_ok_and(|output| output.status.success()) {
        println!("skipped: the host has IPython");
        return;
    }
    const CODE: &str = r#"
        [[turn]]
        call = [{ tool = "execute_python", input = { code = "print(1)" } }]
        [[turn]]
        call = [{ tool = "execute_python", input = { code = "print(2)" } }]
        [[turn]]
        say = "It is not known."
    "#;
    let stage = world.stage(CODE, turns(9)).await;
    let bare = Settings { template: "host".into(), ..Settings::default() };
    assert_eq!(stage.worker_with(bare).work(&stage.address).await.unwrap(), Left::Finished);
    let events = stage.events().await;
    let end = finished(&events);
    assert_eq!(
        (end.outcome, end.error),
        (Outcome::Failed, Some(ErrorCategory::Sandbox)),
        "{end:?}"
    );
    let lacks = "template `host` has no IPython; choose one that has, such as `python-data`";
    assert_eq!(end.message.as_deref(), Some(lacks));
    assert_eq!(stage.bodies().len(), 2, "nobody pays for a third turn");
}
