//! What goes wrong inside the sandbox, or with it.

use std::time::Duration;

use belljar_agent::{Left, Settings, shelve_files};
use belljar_domain::{EndReason, Limits};
use belljar_journal::RunView;
use belljar_journal::event::{Body, Dataset, ErrorCategory, Event, Outcome, ToolFinished};
use belljar_llm::Dialect;
use belljar_objects::{Digest, Shelf};

use crate::world::{World, finished, question, turns};

fn calls(events: &[Event]) -> Vec<&ToolFinished> {
    let mut calls = Vec::new();
    for event in events {
        if let Body::ToolFinished(finished) = &event.body {
            calls.push(finished);
        }
    }
    calls
}

pub(crate) async fn code_that_takes_too_much_is_ended_and_the_run_goes_on(world: &World) {
    const GREEDY: &str = r#"
        [[turn]]
        call = [{ tool = "execute_python", input = { code = "kept = 1\nprint(kept)" } }]
        [[turn]]
        call = [{ tool = "execute_python", input = { code = "hoard = []\nwhile True: hoard.append(b'x' * (64 << 20))" } }]
        [[turn]]
        call = [{ tool = "execute_python", input = { code = "print('alive', 'kept' in globals())" } }]
        [[turn]]
        call = [{ tool = "shell", input = { command = "python3 -c 'hoard = []\nwhile True: hoard.append(b\"x\" * (64 << 20))'" } }]
        [[turn]]
        call = [{ tool = "execute_python", input = { code = "while True: print('x' * (1 << 20))" } }]
        [[turn]]
        call = [{ tool = "shell", input = { command = "head -c 4000000000 /dev/zero > big; status=$?; rm -f big; exit $status" } }]
        [[turn]]
        call = [{ tool = "execute_python", input = { code = "while True: pass", timeout_seconds = 1 } }]
        [[turn]]
        call = [{ tool = "shell", input = { command = "yes" } }]
        [[turn]]
        call = [{ tool = "execute_python", input = { code = "print('still here')" } }]
        [[turn]]
        say = "Enough."
    "#;
    let stage = world.stage(GREEDY, turns(12)).await;
    let events = stage.finish().await;
    let end = finished(&events);
    assert_eq!((end.outcome, end.result.as_deref()), (Outcome::Answered, Some("Enough.")));
    let calls = calls(&events);
    let category = |at: usize| calls[at].fault.as_ref().map_or("", |fault| fault.category.as_str());
    assert_eq!(category(1), "memory", "{:?}", calls[1]);
    // Whoever hoarded is gone with its variables, and the model can read that.
    assert_eq!(calls[2].shown.trim(), "alive False", "{:?}", calls[2]);
    assert!(calls[1].shown.contains("variables are gone"), "{}", calls[1].shown);
    assert_eq!(category(3), "memory", "{:?}", calls[3]);
    assert_eq!(
        (category(4), calls[4].reason),
        ("output", EndReason::Output),
        "{:?}",
        calls[4].used
    );
    assert!(["exit", "disk", "memory"].contains(&category(5)), "{:?}", calls[5]);
    assert_eq!(category(6), "timeout", "{:?}", calls[6]);
    assert_eq!(
        (category(7), calls[7].reason),
        ("output", EndReason::Output),
        "{:?}",
        calls[7].used
    );
    // What is above the limit gets no new credit: of it comes what was under way,
    // one window of the link, and no byte more.
    let limit = Limits::default().output_bytes;
    let said = calls[7].used.output_bytes;
    assert!((limit + 1..=limit + (1 << 20)).contains(&said), "{said}");
    assert_eq!(calls[8].shown.trim(), "still here", "{:?}", calls[8]);
    assert_eq!(RunView::of(&events).sandboxes, 1, "the sandbox outlives all of it");
}

pub(crate) async fn links_lead_nowhere_that_the_code_could_not_go(world: &World) {
    // `DIR` is a directory of the host, then one inside that is called the same.
    const LINKS: &str = r#"
        [[turn]]
        call = [{ tool = "shell", input = { command = "ln -s DIR/secret key; ln -s DIR door; ln -s /mnt/data/a.csv mine; ln -s /mnt/data folder" } }]
        [[turn]]
        call = [
            { tool = "read_file", input = { path = "key" } },
            { tool = "read_file", input = { path = "door/secret" } },
            { tool = "write_file", input = { path = "key", content = "planted" } },
            { tool = "write_file", input = { path = "door/new", content = "planted" } },
        ]
        [[turn]]
        call = [
            { tool = "write_file", input = { path = "mine", content = "planted" } },
            { tool = "write_file", input = { path = "folder/a.csv", content = "planted" } },
            { tool = "write_file", input = { path = "/mnt/data/a.csv", content = "planted" } },
            { tool = "shell", input = { command = "cat /mnt/data/a.csv" } },
        ]
        [[turn]]
        call = [{ tool = "shell", input = { command = "rm -rf key door; mkdir -p DIR; echo decoy > DIR/secret; echo > DIR/own; ln -s DIR/secret key; ln -s DIR door; ln -s DIR/own mine-too" } }]
        [[turn]]
        call = [
            { tool = "read_file", input = { path = "key" } },
            { tool = "write_file", input = { path = "door/new", content = "through the door\n" } },
            { tool = "write_file", input = { path = "mine-too", content = "through the link\n" } },
            { tool = "shell", input = { command = "cat DIR/new DIR/own" } },
        ]
        [[turn]]
        say = "Done."
    "#;
    let outside = tempfile::tempdir_in("/tmp").unwrap();
    let place = |name: &str| outside.path().join(name);
    std::fs::write(place("secret"), "the host's own").unwrap();
    std::fs::write(place("a.csv"), "x\n1\n").unwrap();
    let shelf = Shelf::new(world.directory.path().join("shelf"));
    let data = shelve_files(&shelf, &[place("a.csv")]).unwrap().remove(0);
    let mut created = question(turns(9));
    created.datasets.push(Dataset {
        name: data.name,
        fingerprint: data.fingerprint,
        bytes: data.bytes,
        description: None,
        origin: None,
    });
    let script = LINKS.replace("DIR", outside.path().to_str().unwrap());
    let stage = world.stage_in(Dialect::AnthropicMessages, &script, created).await;
    let events = stage.finish().await;
    let calls = calls(&events);
    let is_refused =
        |at: usize| calls[at].fault.as_ref().is_some_and(|fault| fault.category == "file");
    assert!(is_refused(1) && is_refused(2), "{calls:?}");
    assert!(is_refused(5) && is_refused(6) && is_refused(7), "{calls:?}");
    assert_eq!(calls[8].shown.trim_end(), "x\n1", "the data is as it was");
    // The same links, led by the same way, do lead where the code itself may go.
    assert_eq!(calls[10].shown.trim_end(), "decoy", "{calls:?}");
    assert_eq!(calls[13].shown.trim_end(), "through the door\nthrough the link", "{calls:?}");
    assert!(stage.bodies().iter().all(|body| !body.contains("the host's own")));
    assert_eq!(std::fs::read_to_string(place("secret")).unwrap(), "the host's own");
    assert_eq!(std::fs::read_dir(outside.path()).unwrap().count(), 2, "nothing came out");
}

pub(crate) async fn a_run_without_a_sandbox_says_so(world: &World) {
    const CODE: &str = r#"
        [[turn]]
        say = "I look."
        call = [{ tool = "shell", input = { command = "echo 1" } }]
        [[turn]]
        say = "Done."
    "#;
    let stage = world.stage(CODE, turns(9)).await;
    let nowhere = Settings { template: "no-such-template".into(), ..Settings::default() };
    let left = stage.worker_with(nowhere).work(&stage.address).await;
    assert_eq!(left.unwrap(), Left::Finished);
    let events = stage.events().await;
    let end = finished(&events);
    assert_eq!((end.outcome, end.error), (Outcome::Failed, Some(ErrorCategory::Sandbox)));
    let result = end.result.as_deref().unwrap();
    assert!(result.contains("no-such-template") && result.ends_with("I look."), "{result}");
}

pub(crate) async fn data_that_is_not_what_it_was_is_not_used(world: &World) {
    const CODE: &str =
        "[[turn]]\ncall = [{ tool = \"shell\", input = { command = \"ls /mnt/data\" } }]\n";
    let gone = Dataset {
        name: "deals.json".into(),
        fingerprint: Digest::of(b"[1]"),
        bytes: 3,
        description: None,
        origin: None,
    };
    let mut created = question(turns(9));
    created.datasets.push(gone);
    let stage = world.stage_in(Dialect::AnthropicMessages, CODE, created).await;
    let events = stage.finish().await;
    let end = finished(&events);
    assert_eq!((end.outcome, end.error), (Outcome::Failed, Some(ErrorCategory::Data)));
    assert!(end.result.as_deref().unwrap().contains("deals.json"), "{end:?}");
}

pub(crate) async fn a_run_that_kills_whoever_works_on_it_is_given_up(world: &World) {
    let stage = world.stage("[[turn]]\nsay = \"Hello.\"\n", turns(9)).await;
    // What the dead leave: a lease that nobody gave back.
    for number in 1..=4 {
        let owner = format!("dead-{number}");
        let lease = Duration::from_millis(1);
        stage.journal.claim(&stage.address, &owner, lease).await.unwrap();
        stage.free().await;
    }
    let events = stage.finish().await;
    let end = finished(&events);
    assert_eq!((end.outcome, end.error), (Outcome::Failed, Some(ErrorCategory::RuntimeCrash)));
    assert!(end.result.as_deref().unwrap().contains("died at the same point"), "{end:?}");
    assert!(stage.bodies().is_empty(), "the model was not asked");
}
