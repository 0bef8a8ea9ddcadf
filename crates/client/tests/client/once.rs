//! Calls and cells that bear a key are executed once.

use belljar_api::context::CellEvent;
use belljar_api::sandbox::{Keep, ResumeSandbox};
use belljar_client::{CallSaid, Cell, CellRun, Command, Key, Sandbox};
use belljar_domain::EndReason;
use belljar_testkit::Served;
use futures_util::future::join_all;

use crate::{Stage, Way, client, lines};

/// Leaves a mark, and waits to be told to go on.
const WAITS: &str =
    "echo x >> /tmp/n; echo begin; while [ ! -e /tmp/go ]; do sleep 0.02; done; echo end";

fn key(text: &str) -> Key {
    text.parse().unwrap()
}

async fn hear(run: &mut CellRun, text: &str) {
    loop {
        match run.next().await.unwrap() {
            Some(CellEvent::Stdout { data }) if data == text => return,
            Some(CellEvent::Begun { .. }) => {}
            other => panic!("{other:?}"),
        }
    }
}

pub(crate) async fn a_client_that_dies_asks_again_and_hears_all_of_it(stage: &Stage<'_>) {
    let (sandbox, bash) = stage.bash().await;
    let (cell, key) = (Cell::new(WAITS), key("turn-1"));
    let mut first = sandbox.run_cell(&bash, &cell, Some(&key)).await.unwrap();
    assert!(!first.is_repeated());
    hear(&mut first, "begin\n").await;
    drop(first);
    let mut second = sandbox.run_cell(&bash, &cell, Some(&key)).await.unwrap();
    assert!(second.is_repeated());
    hear(&mut second, "begin\n").await;
    sandbox.write_file("/tmp/go", "").await.unwrap();
    let ended = second.finish().await.unwrap();
    assert_eq!((ended.stdout.as_str(), ended.end.reason), ("end\n", EndReason::Done));
    assert!(ended.end.ok && ended.error.is_none(), "{ended:?}");
    let third = sandbox.run_cell(&bash, &cell, Some(&key)).await.unwrap().finish().await.unwrap();
    assert_eq!((third.stdout.as_str(), third.omitted), ("begin\nend\n", None));
    assert_eq!((third.count, third.end.usage.wall_ms), (Some(1), ended.end.usage.wall_ms));
    assert_eq!(lines(&sandbox, "/tmp/n").await, 1);
    sandbox.end().await.unwrap();
}

/// The control of the case above: without a key, nobody's cell is interrupted.
pub(crate) async fn nobody_hears_a_cell_without_a_key_to_its_end(stage: &Stage<'_>) {
    let (sandbox, bash) = stage.bash().await;
    let mut first = sandbox.run_cell(&bash, &Cell::new(WAITS), None).await.unwrap();
    hear(&mut first, "begin\n").await;
    drop(first);
    // Cells of a context run one after the other: nothing lets the first go on.
    let next = sandbox.run_cell(&bash, &Cell::new("echo next"), None).await.unwrap();
    assert_eq!(next.finish().await.unwrap().stdout, "next\n");
    sandbox.end().await.unwrap();
}

pub(crate) async fn those_who_ask_at_the_same_moment_get_one_execution(stage: &Stage<'_>) {
    let (sandbox, bash) = stage.bash().await;
    let (cell, key) = (Cell::new("echo x >> /tmp/n; echo $RANDOM $RANDOM"), key("both"));
    let runs = join_all((0..8).map(|_| sandbox.run_cell(&bash, &cell, Some(&key)))).await;
    let runs: Vec<CellRun> = runs.into_iter().map(Result::unwrap).collect();
    assert_eq!(runs.iter().filter(|run| !run.is_repeated()).count(), 1);
    let heard = join_all(runs.into_iter().map(CellRun::finish)).await;
    let heard: Vec<String> = heard.into_iter().map(|cell| cell.unwrap().stdout).collect();
    assert!(heard.iter().all(|text| text.len() > 3 && *text == heard[0]), "{heard:?}");
    assert_eq!(lines(&sandbox, "/tmp/n").await, 1);

    let command = Command::script("echo x >> /tmp/m; echo $$");
    let key = self::key("both-commands");
    let runs = join_all((0..8).map(|_| sandbox.run(&command, Some(&key)))).await;
    let runs: Vec<_> = runs.into_iter().map(Result::unwrap).collect();
    assert_eq!(runs.iter().filter(|run| !run.is_repeated()).count(), 1);
    assert!(runs.iter().all(|run| (run.id(), run.number()) == (runs[0].id(), runs[0].number())));
    for run in runs {
        assert!(!run.finish().await.unwrap().stdout.is_empty());
    }
    assert_eq!(lines(&sandbox, "/tmp/m").await, 1);
    sandbox.end().await.unwrap();
}

pub(crate) async fn a_command_is_executed_once_also_in_the_background(stage: &Stage<'_>) {
    let sandbox = stage.sandbox().await;
    let command =
        Command { stdin: Some("in\n".to_owned()), ..Command::script(format!("cat; {WAITS}")) };
    let mut first = sandbox.run(&command, Some(&key("front"))).await.unwrap();
    let heard = first.next().await.unwrap();
    assert!(matches!(heard, Some(CallSaid::Stdout(_))), "{heard:?}");
    let id = first.id();
    drop(first);
    sandbox.write_file("/tmp/go", "").await.unwrap();
    let again = sandbox.run(&command, Some(&key("front"))).await.unwrap();
    assert!(again.is_repeated() && again.id() == id);
    let again = again.finish().await.unwrap();
    assert_eq!(again.stdout, b"in\nbegin\nend\n");
    assert_eq!((again.end.reason, again.end.exit_code), (EndReason::Done, Some(0)));

    let command = Command::script("echo x >> /tmp/b; exec sleep 600");
    let first = sandbox.start(&command, Some(&key("back"))).await.unwrap();
    let second = sandbox.start(&command, Some(&key("back"))).await.unwrap();
    assert_eq!((first.id, first.number, &first.argv), (second.id, second.number, &second.argv));
    assert!(second.end.is_none());
    // Not before it has done what it must not do twice.
    while !has_written(&sandbox, "/tmp/b").await {
        tokio::task::yield_now().await;
    }
    sandbox.end_call(first.id).await.unwrap();
    loop {
        let again = sandbox.start(&command, Some(&key("back"))).await.unwrap();
        assert_eq!(again.id, first.id);
        if let Some(end) = again.end {
            assert_eq!(end.signal, Some(9));
            break;
        }
        tokio::task::yield_now().await;
    }
    assert_eq!(lines(&sandbox, "/tmp/b").await, 1);
    sandbox.end().await.unwrap();
}

pub(crate) async fn another_request_is_not_taken_for_the_same(stage: &Stage<'_>) {
    let (sandbox, bash) = stage.bash().await;
    let key = key("k");
    let first = sandbox.run_cell(&bash, &Cell::new("echo 1"), Some(&key)).await.unwrap();
    first.finish().await.unwrap();
    let timed = Cell { timeout: Some(std::time::Duration::from_secs(9)), ..Cell::new("echo 1") };
    let other = sandbox.create_context("bash", None).await.unwrap().id;
    let refused = [
        sandbox.run_cell(&bash, &Cell::new("echo 2"), Some(&key)).await.map(drop),
        sandbox.run_cell(&bash, &timed, Some(&key)).await.map(drop),
        sandbox.run_cell(&other, &Cell::new("echo 1"), Some(&key)).await.map(drop),
        sandbox.run(&Command::script("echo 1"), Some(&key)).await.map(drop),
    ];
    for (index, refused) in refused.into_iter().enumerate() {
        let error = refused.unwrap_err();
        assert_eq!(error.code(), Some("idempotency_request_mismatch"), "{index}: {error:?}");
    }
    // The key is still the first one's.
    let again = sandbox.run_cell(&bash, &Cell::new("echo 1"), Some(&key)).await.unwrap();
    assert!(again.is_repeated());
    assert_eq!(again.finish().await.unwrap().stdout, "1\n");
    sandbox.end().await.unwrap();
}

pub(crate) async fn what_did_not_start_can_be_asked_for_again(stage: &Stage<'_>) {
    let sandbox = stage.sandbox().await;
    let command = Command { cwd: Some("/tmp/later".to_owned()), ..Command::script("pwd") };
    let refused = sandbox.run(&command, Some(&key("k"))).await.unwrap_err();
    assert_eq!(refused.code(), Some("no_such_cwd"), "{refused:?}");
    let unknown = sandbox.run_cell("later", &Cell::new("pwd"), Some(&key("c"))).await.unwrap_err();
    assert_eq!(unknown.code(), Some("context_not_found"), "{unknown:?}");
    sandbox.make_directory("/tmp/later").await.unwrap();
    let run = sandbox.run(&command, Some(&key("k"))).await.unwrap();
    assert!(!run.is_repeated());
    assert_eq!(run.finish().await.unwrap().stdout, b"/tmp/later\n");
    sandbox.end().await.unwrap();
}

pub(crate) async fn of_much_output_the_first_hears_all_and_others_what_is_kept(stage: &Stage<'_>) {
    let sandbox = stage.sandbox().await;
    let bytes = 6_000_000;
    let command = Command::script(format!("echo first; yes | head -c {bytes}; echo; echo last"));
    let all = bytes + "first\n\nlast\n".len() as u64;
    let first = sandbox.run(&command, Some(&key("k"))).await.unwrap().finish().await.unwrap();
    assert_eq!((first.stdout.len() as u64, first.omitted.stdout_bytes), (all, 0));
    let again = sandbox.run(&command, Some(&key("k"))).await.unwrap().finish().await.unwrap();
    assert_eq!(again.stdout.len() as u64 + again.omitted.stdout_bytes, all);
    assert!(again.omitted.stdout_bytes > all / 2, "{:?}", again.omitted);
    assert!(again.stdout.len() > 1 << 20, "{}", again.stdout.len());
    assert!(again.stdout.starts_with(b"first\n") && again.stdout.ends_with(b"\nlast\n"));
    assert_eq!(again.end.reason, EndReason::Done);
    sandbox.end().await.unwrap();
}

pub(crate) async fn answers_outlast_a_pause(stage: &Stage<'_>) {
    let (sandbox, bash) = stage.bash().await;
    let over = Cell::new("echo x >> /tmp/over; echo over");
    sandbox.run_cell(&bash, &over, Some(&key("over"))).await.unwrap().finish().await.unwrap();
    let waits = Cell::new(WAITS);
    let mut first = sandbox.run_cell(&bash, &waits, Some(&key("waits"))).await.unwrap();
    hear(&mut first, "begin\n").await;
    drop(first);
    sandbox.pause(Keep::Memory).await.unwrap();
    // What is over is told also by one that stands still; what is not, is not.
    let told = sandbox.run_cell(&bash, &over, Some(&key("over"))).await.unwrap();
    assert_eq!(told.finish().await.unwrap().stdout, "over\n");
    let paused = sandbox.run_cell(&bash, &waits, Some(&key("waits"))).await.unwrap_err();
    assert_eq!(paused.code(), Some("sandbox_paused"), "{paused:?}");
    sandbox.resume(&ResumeSandbox::default()).await.unwrap();
    let mut again = sandbox.run_cell(&bash, &waits, Some(&key("waits"))).await.unwrap();
    assert!(again.is_repeated());
    hear(&mut again, "begin\n").await;
    sandbox.write_file("/tmp/go", "").await.unwrap();
    assert_eq!(again.finish().await.unwrap().stdout, "end\n");
    assert_eq!(lines(&sandbox, "/tmp/n").await, 1);

    // With its files alone it begins anew, and still knows what it has done.
    let command = Command::script(WAITS.replace("/tmp/go", "/tmp/never"));
    let mut cut = sandbox.run(&command, Some(&key("cut"))).await.unwrap();
    assert!(matches!(cut.next().await.unwrap(), Some(CallSaid::Stdout(_))));
    drop(cut);
    sandbox.pause(Keep::Files).await.unwrap();
    sandbox.resume(&ResumeSandbox::default()).await.unwrap();
    let told = sandbox.run_cell(&bash, &over, Some(&key("over"))).await.unwrap();
    assert_eq!(told.finish().await.unwrap().stdout, "over\n");
    let cut = sandbox.run(&command, Some(&key("cut"))).await.unwrap().finish().await.unwrap();
    assert_eq!((cut.end.reason, &cut.stdout[..]), (EndReason::Lost, &b"begin\n"[..]));
    assert_eq!((lines(&sandbox, "/tmp/over").await, lines(&sandbox, "/tmp/n").await), (1, 2));
    sandbox.end().await.unwrap();
}

pub(crate) async fn answers_outlast_the_server(served: Served) -> Served {
    let stage = Stage { served: &served, way: Way::Dial, client: client(&served, Way::Dial, 0) };
    let (over, cut) = (Command::script("echo x >> /tmp/n; echo over"), Command::script(WAITS));
    let sandbox = stage.sandbox().await;
    let driven = sandbox.clone().driven(5);
    driven.run(&over, Some(&key("over"))).await.unwrap().finish().await.unwrap();
    let mut waits = driven.run(&cut, Some(&key("cut"))).await.unwrap();
    assert!(matches!(waits.next().await.unwrap(), Some(CallSaid::Stdout(_))));
    drop(waits);
    sandbox.pause(Keep::Files).await.unwrap();

    let served = served.restart().await.unwrap();
    let sandbox = client(&served, Way::Dial, 0).sandbox(sandbox.id());
    // Before anything of it runs again.
    let told = sandbox.run(&over, Some(&key("over"))).await.unwrap();
    assert!(told.is_repeated());
    let told = told.finish().await.unwrap();
    assert_eq!((&told.stdout[..], told.end.exit_code), (&b"over\n"[..], Some(0)));
    let late = sandbox.clone().driven(4).run(&over, Some(&key("over"))).await.unwrap_err();
    assert_eq!(late.code(), Some("stale_generation"), "{late:?}");
    let other = sandbox.run(&cut, Some(&key("over"))).await.unwrap_err();
    assert_eq!(other.code(), Some("idempotency_request_mismatch"), "{other:?}");
    sandbox.resume(&ResumeSandbox::default()).await.unwrap();
    let lost = sandbox.run(&cut, Some(&key("cut"))).await.unwrap().finish().await.unwrap();
    assert_eq!((&lost.stdout[..], lost.end.reason), (&b"begin\n"[..], EndReason::Lost));
    assert_eq!(lines(&sandbox, "/tmp/n").await, 2);
    sandbox.end().await.unwrap();
    served
}

async fn has_written(sandbox: &Sandbox, path: &str) -> bool {
    let Ok(file) = sandbox.read_file(path).await else { return false };
    file.bytes(1 << 10).await.is_ok_and(|bytes| bytes.ends_with(b"\n"))
}
