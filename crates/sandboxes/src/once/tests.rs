use std::time::Duration;

use belljar_domain::{EndReason, Usage};
use belljar_node::Origin;

use super::log::{HEAD, Log, TAIL, weight};
use super::*;
use crate::contexts::Ending;

const PIECE: usize = 64 << 10;

fn asked(key: &str, what: &str, generation: Option<u64>) -> Asked {
    Asked::new(key, "cell python", &what, generation).unwrap()
}

fn text(of: char) -> Output {
    Output::Stdout(of.to_string().repeat(PIECE))
}

fn begun(count: u64) -> Output {
    Output::Begun { count, call: 7 }
}

fn ended() -> Output {
    let (reason, origin) = (EndReason::Done, Origin::Executed);
    Output::Ended(Ending { ok: true, reason, usage: Usage::default(), origin })
}

fn cell() -> Arc<Recorded<Output>> {
    Recorded::new(Log::default())
}

/// A cell that said so many pieces, and is over.
async fn over(pieces: usize) -> Arc<Recorded<Output>> {
    let cell = cell();
    cell.say(begun(1)).await;
    for _ in 0..pieces {
        cell.say(text('x')).await;
    }
    cell.say(ended()).await;
    cell
}

async fn all(mut listening: Listening<Output>) -> Vec<Told<Output>> {
    let mut all = Vec::new();
    while let Some(told) = listening.next().await {
        all.push(told);
    }
    all
}

/// Bytes that were told, and bytes that were said to be missing.
fn bytes(told: &[Told<Output>]) -> (u64, u64) {
    told.iter().fold((0, 0), |(said, missing), told| match told {
        Told::Said(piece) => (said + piece.amount().total(), missing),
        Told::Omitted(amount) => (said, missing + amount.total()),
    })
}

fn enter(once: &Once, asked: &Asked, cell: &Arc<Recorded<Output>>) -> Entered {
    let (_, entered) = once.attach_or(asked, || Ok(Kept::Cell(cell.clone()))).unwrap();
    entered
}

#[tokio::test]
async fn whoever_comes_late_hears_all_of_it_and_what_is_still_to_come() {
    let cell = cell();
    cell.say(begun(1)).await;
    cell.say(text('a')).await;
    let mut late = cell.listen();
    assert_eq!(late.next().await, Some(Told::Said(begun(1))));
    assert_eq!(late.next().await, Some(Told::Said(text('a'))));
    let rest = tokio::spawn(all(late));
    cell.say(text('b')).await;
    cell.say(ended()).await;
    assert_eq!(rest.await.unwrap(), [Told::Said(text('b')), Told::Said(ended())]);
    let again = all(cell.listen()).await;
    assert_eq!(again.len(), 4, "{again:?}");
}

#[tokio::test]
async fn of_endless_output_the_beginning_and_the_end_are_kept_and_the_rest_is_counted() {
    let cell = cell();
    let pieces = 100;
    cell.say(begun(1)).await;
    cell.say(text('a')).await;
    for _ in 0..pieces - 2 {
        cell.say(text('m')).await;
    }
    cell.say(text('z')).await;
    cell.say(ended()).await;
    assert!(cell.weight() <= HEAD + TAIL, "{}", cell.weight());
    let told = all(cell.listen()).await;
    let (said, missing) = bytes(&told);
    assert_eq!(said + missing, (pieces * PIECE) as u64);
    assert!(missing > 0 && said > HEAD / 2 + TAIL / 2, "{said} {missing}");
    assert_eq!(told.iter().filter(|told| matches!(told, Told::Omitted(_))).count(), 1);
    assert_eq!(told[1], Told::Said(text('a')));
    assert_eq!(told[told.len() - 2..], [Told::Said(text('z')), Told::Said(ended())]);
}

#[tokio::test]
async fn many_small_pieces_are_not_free() {
    let cell = cell();
    for _ in 0..100_000 {
        cell.say(Output::Stdout("x".to_owned())).await;
    }
    cell.say(ended()).await;
    let told = all(cell.listen()).await;
    assert!(weight(Amount::default(), told.len() as u64) <= HEAD + TAIL + 4096, "{}", told.len());
    assert_eq!(bytes(&told).0 + bytes(&told).1, 100_000);
}

#[tokio::test]
async fn whoever_reads_along_misses_nothing_however_much_there_is() {
    let cell = cell();
    let listener = tokio::spawn(all(cell.listen()));
    for _ in 0..200 {
        cell.say(text('x')).await;
    }
    cell.say(ended()).await;
    assert_eq!(bytes(&listener.await.unwrap()), ((200 * PIECE) as u64, 0));
}

#[tokio::test(start_paused = true)]
async fn whoever_does_not_read_is_waited_for_only_so_long_and_told_what_it_missed() {
    let cell = cell();
    let mut asleep = cell.listen();
    let begin = tokio::time::Instant::now();
    for _ in 0..200 {
        cell.say(text('x')).await;
    }
    cell.say(ended()).await;
    let waited = begin.elapsed();
    assert!(waited >= Duration::from_secs(10) && waited < Duration::from_secs(11), "{waited:?}");
    let first = asleep.next().await;
    assert_eq!(first, Some(Told::Said(text('x'))));
    let (said, missing) = bytes(&all(asleep).await);
    assert_eq!(said + missing, (199 * PIECE) as u64);
    assert!(missing > 0);
}

#[tokio::test(start_paused = true)]
async fn whoever_leaves_holds_nothing_back() {
    let cell = cell();
    drop(cell.listen());
    let told = tokio::time::timeout(Duration::from_secs(5), async {
        for _ in 0..100 {
            cell.say(text('x')).await;
        }
    });
    told.await.expect("nobody is waited for");
}

#[test]
fn a_key_belongs_to_one_request() {
    let once = Once::default();
    let first = asked("k", "1 + 1", None);
    assert_eq!(enter(&once, &first, &cell()), Entered::New);
    assert_eq!(enter(&once, &first, &cell()), Entered::Before);
    let other = once.attach_or(&asked("k", "1 + 2", None), || unreachable!()).unwrap_err();
    assert_eq!(other.code, "idempotency_request_mismatch");
    let elsewhere = Asked::new("k", "cell javascript", &"1 + 1", None).unwrap();
    assert!(once.attach_or(&elsewhere, || unreachable!()).is_err());
    assert!(Asked::new("K", "call", &"", None).is_err());
}

#[test]
fn what_was_not_begun_can_be_asked_for_again() {
    let once = Once::default();
    let first = asked("k", "x", None);
    let refused = once.attach_or(&first, || Err(Problem::gone())).unwrap_err();
    assert_eq!(refused, Problem::gone());
    assert_eq!(enter(&once, &first, &cell()), Entered::New);
    once.forget(&first);
    assert_eq!(enter(&once, &asked("k", "y", None), &cell()), Entered::New);
}

#[test]
fn whoever_was_replaced_does_nothing_any_more() {
    let once = Once::default();
    assert!(once.fence(3).unwrap());
    assert!(!once.fence(3).unwrap());
    assert_eq!(once.fence(2).unwrap_err().code, "stale_generation");
    let late = once.attach_or(&asked("k", "x", Some(2)), || unreachable!()).unwrap_err();
    assert_eq!(late.code, "stale_generation");
    assert_eq!(enter(&once, &asked("k", "x", Some(4)), &cell()), Entered::New);
    // Not even what it would be told again.
    assert_eq!(once.finished(&asked("k", "x", Some(3))).unwrap_err().code, "stale_generation");
    assert_eq!(once.generation(), Some(4));
    // Whoever says nothing drives nothing.
    assert_eq!(enter(&once, &asked("k", "x", None), &cell()), Entered::Before);
}

#[tokio::test]
async fn only_so_many_run_at_once_and_only_so_many_keys_are_known() {
    let once = Once::default();
    for number in 0..MOST_RUNNING {
        enter(&once, &asked(&format!("running-{number}"), "x", None), &cell());
    }
    let more = once.attach_or(&asked("more", "x", None), || unreachable!()).unwrap_err();
    assert_eq!((more.code, more.kind), ("too_many_keyed_calls", Kind::TooMany));

    let once = Once::default();
    enter(&once, &asked("running", "x", None), &cell());
    let done = over(0).await;
    for number in 0..MOST_KEYS {
        enter(&once, &asked(&format!("done-{number}"), "x", None), &done);
    }
    assert_eq!(once.lock().order.len(), MOST_KEYS);
    assert_eq!(once.lock().known.len(), MOST_KEYS);
    let known = |key: &str| once.lock().known.contains_key(key);
    // The oldest went, except for the one that runs.
    assert!(known("running") && !known("done-0") && known("done-1"));
}

#[tokio::test]
async fn the_oldest_keep_only_how_they_ended_when_a_sandbox_has_said_too_much() {
    let once = Once::default();
    let calls = 20;
    for number in 0..calls {
        enter(&once, &asked(&format!("k{number}"), "x", None), &over(20).await);
        once.enforce();
    }
    let kept: u64 = once.lock().known.values().map(|entry| entry.kept.weight()).sum();
    assert!(kept <= MOST_SAID && kept > MOST_SAID / 2, "{kept}");
    let told = async |key: &str| {
        let Some(Kept::Cell(cell)) = once.finished(&asked(key, "x", None)).unwrap() else {
            panic!("{key} is not known")
        };
        all(cell.listen()).await
    };
    let oldest = told("k0").await;
    let all_of_it = Amount { stdout: (20 * PIECE) as u64, ..Amount::default() };
    let expected = [Told::Said(begun(1)), Told::Omitted(all_of_it), Told::Said(ended())];
    assert_eq!(oldest, expected);
    assert_eq!(bytes(&told("k19").await), (all_of_it.total(), 0));
}

#[tokio::test]
async fn what_is_written_down_is_the_same_when_it_is_read() {
    let once = Once::default();
    once.fence(7).unwrap();
    enter(&once, &asked("over", "x", None), &over(40).await);
    let cut_off = cell();
    cut_off.say(begun(2)).await;
    cut_off.say(text('a')).await;
    enter(&once, &asked("runs", "x", None), &cut_off);
    let call = Recorded::new(Log::default());
    let stream = crate::processes::Stream::Stdout;
    call.say(Said::Started { pid: 5, number: 9 }).await;
    call.say(Said::Output(stream, Arc::from(&b"\xff\0"[..]))).await;
    once.attach_or(&asked("call", "x", None), || Ok(Kept::Call(call.clone()))).unwrap();

    let text_of = serde_json::to_string(&once.written()).unwrap();
    let again = Once::restored(serde_json::from_str(&text_of).unwrap(), once.generation());
    assert_eq!(again.generation(), Some(7));
    let heard = async |once: &Once, key: &str| match once.finished(&asked(key, "x", None)) {
        Ok(Some(Kept::Cell(cell))) => all(cell.listen()).await,
        other => panic!("{key}: {other:?}"),
    };
    assert_eq!(heard(&again, "over").await, heard(&once, "over").await);
    // What ran is over: nobody heard how.
    let runs = heard(&again, "runs").await;
    assert_eq!(runs.last(), Some(&Told::Said(Output::Gone)));
    assert_eq!(runs[..2], [Told::Said(begun(2)), Told::Said(text('a'))]);
    let Ok(Some(Kept::Call(call))) = again.finished(&asked("call", "x", None)) else { panic!() };
    let mut listening = call.listen();
    assert_eq!(listening.next().await, Some(Told::Said(Said::Started { pid: 5, number: 9 })));
    let bytes = Told::Said(Said::Output(stream, Arc::from(&b"\xff\0"[..])));
    assert_eq!(listening.next().await, Some(bytes));
    assert_eq!(listening.next().await, Some(Told::Said(Said::lost())));
    assert_eq!(listening.next().await, None);
}
