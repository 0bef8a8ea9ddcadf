//! Requests of a command that was killed, in the ledger of its data directory.
//!
//! Requirements: P5

use std::process::Stdio;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::ask::{belljar, command, newest, scripted};
use crate::world::{MODEL, TEMPLATE, World};

/// The second request stands still, once.
const SCRIPT: &str = r#"
    [[turn]]
    call = [{ tool = "shell", input = { command = "echo 42" } }]
    usage = { input = 100, output = 10 }
    [[turn]]
    call = [{ tool = "finish", input = { answer = "It is {{result}}." } }]
    usage = { input = 300, output = 30 }
    fault = { kind = "stall", after = 3 }
    fault-times = 1
"#;

/// Nothing takes this long.
const PATIENCE: Duration = Duration::from_secs(120);

pub(crate) async fn requests_of_a_killed_ask_are_charged_once(world: &World) {
    let place = tempfile::tempdir_in(world.directory.path()).unwrap();
    let place = place.path();
    let model = scripted(SCRIPT).await;
    let url = format!("http://{}", model.address());
    let usual = ["--model", MODEL, "--model-url", &url, "--template", TEMPLATE, "--out", "out"];
    let ask = [&["ask", "How much?"], &usual[..]].concat();
    let mut asking = command(place, &ask).stderr(Stdio::null()).spawn().unwrap();
    let began = Instant::now();
    while model.record().total() < 2 {
        assert!(began.elapsed() < PATIENCE, "the model is not asked");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    asking.kill().await.unwrap();
    let run = newest(place).await;
    let again = [&["ask", "--resume", &run], &usual[..]].concat();
    let resumed = belljar(place, &again).await;
    assert_eq!(resumed.status, Some(0), "{}{}", resumed.stdout, resumed.stderr);
    // The gateway of the killed command has ended by now, whether the second command came before
    // that or not.
    let more = belljar(place, &ask).await;
    assert_eq!(more.status, Some(0), "{}{}", more.stdout, more.stderr);
    // Two requests of the first command, one of the second, and two of the third.
    assert_eq!(model.record().total(), 5);
    let used = usage(place).await;
    assert_eq!(used["charges"], 5, "{used}");
    let estimated = used["estimated_nano_dollars"].as_u64().unwrap();
    let told = 2 * (100 * 1000 + 10 * 5000) + 2 * (300 * 1000 + 30 * 5000);
    assert!(estimated > 0, "{used}");
    assert_eq!(used["nano_dollars"], told + estimated, "{used}");
    // A row that was read from the log is not charged again by the next command.
    let last = belljar(place, &ask).await;
    assert_eq!(last.status, Some(0), "{}{}", last.stdout, last.stderr);
    let used = usage(place).await;
    assert_eq!((&used["charges"], model.record().total()), (&7.into(), 7), "{used}");
    assert_eq!(used["estimated_nano_dollars"], estimated, "{used}");
    let table = belljar(place, &["usage", "--by", "model"]).await;
    assert!(table.stdout.contains("ESTIMATED"), "{}", table.stdout);
}

/// The sum of the account `models`.
async fn usage(place: &std::path::Path) -> Value {
    let used = belljar(place, &["usage", "--by", "account", "--json"]).await;
    let used: Value = serde_json::from_str(&used.stdout).expect(&used.stderr);
    let items = used["items"].as_array().unwrap();
    let models = items.iter().find(|item| item["account"] == "models").unwrap();
    models["used"].clone()
}
