//! What there is to ask for.

use belljar_api::call::User;
use belljar_api::checkpoint::{CreateCheckpoint, ForkCheckpoint};
use belljar_api::context::CellEvent;
use belljar_api::network::ListConnections;
use belljar_api::sandbox::{ChangeSandbox, Fork, ForkSandbox, Keep, ListEnded, ListSandboxes};
use belljar_client::{CallSaid, Cell, Command, Error};
use belljar_domain::EndReason;
use bytes::Bytes;
use futures_util::stream;
use std::collections::BTreeMap;
use std::time::Duration;

use crate::Stage;

pub(crate) async fn a_sandbox_is_made_shown_and_ended(stage: &Stage<'_>) {
    assert!(stage.client.ready().await.is_ok());
    let templates = stage.client.templates().await.unwrap();
    assert!(templates.items.iter().any(|template| template.name == "host"), "{templates:?}");
    let sandbox = stage.sandbox().await;
    let shown = sandbox.inspect().await.unwrap();
    assert_eq!((shown.id.as_str(), shown.template.as_str()), (sandbox.id(), "host"));
    let later = ChangeSandbox { timeout_seconds: Some(900.try_into().unwrap()), deadline: None };
    let changed = sandbox.change(&later).await.unwrap();
    assert!(changed.deadline.0 > shown.deadline.0, "{changed:?}");
    let page = stage.client.sandboxes(&ListSandboxes::default()).await.unwrap();
    assert!(page.items.iter().any(|other| other.id == sandbox.id()));
    let rows = sandbox.connections(&ListConnections::default()).await.unwrap();
    assert!(rows.items.is_empty(), "{rows:?}");
    sandbox.end().await.unwrap();
    let gone = sandbox.inspect().await.unwrap_err();
    assert_eq!(gone.code(), Some("sandbox_not_found"), "{gone:?}");
    let ended = stage.client.ended(&ListEnded::default()).await.unwrap();
    assert_eq!(ended.items[0].id, sandbox.id());
    // A row that nobody wrote is no answer either.
    let no_such = stage.client.sandbox("a/../b").inspect().await.unwrap_err();
    assert_eq!(no_such.code(), Some("sandbox_not_found"), "{no_such:?}");
}

pub(crate) async fn cells_say_what_they_do_as_it_happens(stage: &Stage<'_>) {
    let (sandbox, bash) = stage.bash().await;
    let wait = "while [ ! -e /tmp/go ]; do sleep 0.02; done";
    let cell = Cell {
        env: BTreeMap::from([("WHO".to_owned(), "world".to_owned())]),
        ..Cell::new(format!("echo hello $WHO; {wait}; echo oops >&2"))
    };
    let mut run = sandbox.run_cell(&bash, &cell, None).await.unwrap();
    let number = match run.next().await.unwrap() {
        Some(CellEvent::Begun { count: 1, number }) => number,
        other => panic!("{other:?}"),
    };
    // It is heard before it is over: nothing has let it go on yet.
    let first = run.next().await.unwrap();
    assert!(matches!(&first, Some(CellEvent::Stdout { data }) if data == "hello world\n"));
    sandbox.write_file("/tmp/go", "").await.unwrap();
    let rest = run.finish().await.unwrap();
    assert_eq!(
        (rest.stderr.as_str(), rest.end.reason, rest.end.ok),
        ("oops\n", EndReason::Done, true)
    );
    assert!(rest.end.usage.wall_ms < 60_000 && rest.end.usage.output_bytes >= 17, "{rest:?}");
    let next = sandbox.run_cell(&bash, &Cell::new("echo $((6 * 7)); false"), None).await.unwrap();
    let next = next.finish().await.unwrap();
    assert_eq!((next.stdout.as_str(), next.count), ("42\n", Some(2)));
    assert!(next.number.unwrap() > number, "{next:?}");
    assert!(!next.end.ok && next.error.is_some(), "{next:?}");

    let script = sandbox.create_context("javascript", Some("/tmp")).await.unwrap();
    assert_eq!(script.cwd, "/tmp");
    let value = sandbox.run_cell(&script.id, &Cell::new("6 * 7"), None).await.unwrap();
    let value = value.finish().await.unwrap();
    let bundle = value.result.unwrap();
    assert_eq!(bundle.get("text/plain").and_then(|text| text.as_str()), Some("42"), "{bundle:?}");
    sandbox.restart(&script.id).await.unwrap();
    sandbox.delete_context(&script.id).await.unwrap();
    let contexts = sandbox.contexts().await.unwrap();
    assert!(contexts.items.iter().all(|context| context.id != script.id));
    sandbox.end().await.unwrap();
}

pub(crate) async fn commands_are_heard_to_the_byte(stage: &Stage<'_>) {
    let sandbox = stage.sandbox().await;
    let command = Command {
        stdin: Some("in".to_owned()),
        cwd: Some("/tmp".to_owned()),
        user: Some(User::User),
        ..Command::script("printf '\\377\\000'; cat; pwd >&2; exit 3")
    };
    let mut run = sandbox.run(&command, None).await.unwrap();
    assert!(run.id() > 0 && !run.is_repeated());
    let mut stdout = Vec::new();
    let end = loop {
        match run.next().await.unwrap().unwrap() {
            CallSaid::Stdout(bytes) => stdout.extend_from_slice(&bytes),
            CallSaid::Stderr(bytes) => assert_eq!(&bytes[..], b"/tmp\n"),
            CallSaid::Omitted(omitted) => panic!("{omitted:?}"),
            CallSaid::End(end) => break end,
        }
    };
    assert_eq!(stdout, b"\xff\0in");
    assert_eq!((end.reason, end.exit_code), (EndReason::Exit, Some(3)));
    assert!(run.next().await.unwrap().is_none());
    let slow =
        Command { timeout: Some(Duration::from_millis(200)), ..Command::argv(["sleep", "60"]) };
    let slow = sandbox.run(&slow, None).await.unwrap().finish().await.unwrap();
    assert_eq!(slow.end.reason, EndReason::TimeoutWall);
    let started = sandbox.start(&Command::argv(["sleep", "60"]), None).await.unwrap();
    assert!(sandbox.calls().await.unwrap().items.iter().any(|call| call.id == started.id));
    sandbox.end_call(started.id).await.unwrap();
    loop {
        if let Some(end) = sandbox.call(started.id).await.unwrap().end {
            assert_eq!(end.signal, Some(9));
            break;
        }
        tokio::task::yield_now().await;
    }
    let nothing = sandbox.run(&Command::default(), None).await.unwrap_err();
    assert_eq!(nothing.code(), Some("invalid"), "{nothing:?}");
    let long = sandbox.run(&Command::argv(["x\0"]), None).await.unwrap_err();
    assert!(matches!(long, Error::Bounds(_)), "{long:?}");
    sandbox.end().await.unwrap();
}

pub(crate) async fn files_go_both_ways_as_streams(stage: &Stage<'_>) {
    let sandbox = stage.sandbox().await;
    let piece = Bytes::from((0..=255).cycle().take(64 << 10).collect::<Vec<u8>>());
    let pieces = 64;
    let sent = stream::iter(vec![piece.clone(); pieces].into_iter().map(Ok));
    let written = sandbox.stream_file("/tmp/a/large", sent).await.unwrap();
    assert_eq!(written.bytes, (pieces * piece.len()) as u64);
    let mut body = sandbox.read_file("/tmp/a/large").await.unwrap();
    assert_eq!(body.size(), Some(written.bytes));
    let mut at = 0;
    while let Some(bytes) = body.next().await.unwrap() {
        let same = bytes.iter().enumerate().all(|(index, byte)| *byte == piece[(at + index) % 256]);
        assert!(same, "around byte {at}");
        at += bytes.len();
    }
    assert_eq!(at as u64, written.bytes);
    let too_long = sandbox.read_file("/tmp/a/large").await.unwrap().bytes(1000).await;
    assert!(matches!(too_long, Err(Error::Protocol(_))), "{too_long:?}");

    let broken = stream::iter(vec![Ok(piece), Err(std::io::Error::other("it broke"))]);
    sandbox.stream_file("/tmp/a/half", broken).await.unwrap_err();
    let half = sandbox.stat_file("/tmp/a/half").await.unwrap_err();
    assert_eq!(half.code(), Some("file_not_found"), "{half:?}");

    sandbox.make_directory("/tmp/a/b c").await.unwrap();
    sandbox.write_file("/tmp/a/b c/d&e=f%", "x").await.unwrap();
    sandbox.move_file("/tmp/a/b c/d&e=f%", "/tmp/a/ü").await.unwrap();
    let names: Vec<_> = sandbox.list_files("/tmp/a", 2).await.unwrap();
    let names: Vec<_> = names.iter().map(|entry| entry.path.as_str()).collect();
    assert!(names.contains(&"/tmp/a/ü") && names.contains(&"/tmp/a/b c"), "{names:?}");
    sandbox.delete_file("/tmp/a").await.unwrap();
    assert!(sandbox.list_files("/tmp/a", 1).await.is_err());
    sandbox.end().await.unwrap();
}

pub(crate) async fn a_copy_has_the_files_and_knows_no_key(stage: &Stage<'_>) {
    let sandbox = stage.sandbox().await;
    let (command, key) = (Command::script("echo x >> /tmp/n"), "k".parse().unwrap());
    sandbox.run(&command, Some(&key)).await.unwrap().finish().await.unwrap();
    let copies = sandbox.fork(&ForkSandbox::default()).await.unwrap();
    let [Fork::Sandbox(copy)] = copies.items.as_slice() else { panic!("{copies:?}") };
    let copy = stage.client.sandbox(&copy.id);
    let run = copy.run(&command, Some(&key)).await.unwrap();
    assert!(!run.is_repeated());
    run.finish().await.unwrap();
    assert_eq!(crate::lines(&copy, "/tmp/n").await, 2);
    assert_eq!(crate::lines(&sandbox, "/tmp/n").await, 1);
    let wish = CreateCheckpoint { name: None, keep: Keep::Files };
    let kept = sandbox.checkpoint(&wish).await.unwrap();
    let again = stage.client.fork_checkpoint(&kept.id, &ForkCheckpoint::default()).await.unwrap();
    assert_eq!(crate::lines(&stage.client.sandbox(&again.id), "/tmp/n").await, 1);
    stage.client.delete_checkpoint(&kept.id).await.unwrap();
    for id in [copy.id(), &again.id, sandbox.id()] {
        stage.client.sandbox(id).end().await.unwrap();
    }
}

pub(crate) async fn what_ends_under_a_cell_is_said(stage: &Stage<'_>) {
    let (sandbox, bash) = stage.bash().await;
    let mut run = sandbox.run_cell(&bash, &Cell::new("echo on; sleep 600"), None).await.unwrap();
    loop {
        match run.next().await.unwrap() {
            Some(CellEvent::Stdout { .. }) => break,
            Some(CellEvent::Begun { .. }) => {}
            other => panic!("{other:?}"),
        }
    }
    sandbox.end().await.unwrap();
    let gone = run.finish().await.unwrap_err();
    assert!(matches!(gone, Error::SandboxGone), "{gone:?}");
}
