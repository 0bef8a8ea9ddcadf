//! Input and output of calls: binary-safe, streamed, bounded.
//!
//! Requirements: S5, S11

use std::sync::Arc;

use anyhow::ensure;
use belljar_domain::EndReason;
use belljar_domain::limits::MIB;
use belljar_node::{Command, Event, Input};
use sha2::{Digest as _, Sha256};

use crate::fixture::Fixture;
use crate::random::Random;
use crate::verbs::{at_home, finish, interactive, output, put, run, until_printed};
use crate::{cases, same};

cases!["streams":
    no_input_is_an_end_at_once,
    ten_megabytes_go_in_and_come_back,
    input_that_nobody_reads_does_not_matter,
    input_and_output_take_turns,
    both_outputs_are_apart_and_in_order,
    binary_output_is_untouched,
    twenty_megabytes_come_out_whole,
    output_before_the_end_is_never_lost,
    execute_keeps_beginning_and_end,
    too_much_output_ends_the_call,
    too_many_errors_end_the_call,
    a_call_runs_on_without_a_listener,
    a_slow_listener_holds_the_program_back,
];

async fn no_input_is_an_end_at_once(f: &Fixture) -> anyhow::Result<()> {
    let sandbox = f.sandbox().await?;
    same!(output(&sandbox, "cat; echo end").await?, "end\n", "empty input");
    Ok(())
}

/// S11.
async fn ten_megabytes_go_in_and_come_back(f: &Fixture) -> anyhow::Result<()> {
    let sandbox = f.sandbox().await?;
    let bytes = Random::bytes(1, 10_000_000);
    let cat = Command { input: Input::Stream, ..Command::new(["/bin/cat"]) };
    let mut call = sandbox.start(&cat).await?;
    let writer = call.writer();
    for chunk in bytes.chunks(100_000) {
        writer.write(chunk.to_vec());
    }
    writer.close();
    let (stdout, _, end) = finish(&mut call).await;
    same!(end.reason, EndReason::Done, "end");
    ensure!(stdout == bytes, "{} of {} bytes, or others, came back", stdout.len(), bytes.len());
    Ok(())
}

async fn input_that_nobody_reads_does_not_matter(f: &Fixture) -> anyhow::Result<()> {
    let sandbox = f.sandbox().await?;
    let mut call = sandbox.start(&interactive("head -c 1 > /dev/null; echo enough")).await?;
    let writer = call.writer();
    (0..40).for_each(|_| writer.write(vec![0; 100_000]));
    let (stdout, _, end) = finish(&mut call).await;
    same!((stdout.as_slice(), end.reason), (&b"enough\n"[..], EndReason::Done), "end");
    // Input for what is over goes nowhere.
    writer.write(vec![1]);
    writer.close();
    same!(output(&sandbox, "echo alive").await?, "alive\n", "afterwards");
    Ok(())
}

async fn input_and_output_take_turns(f: &Fixture) -> anyhow::Result<()> {
    let sandbox = f.sandbox().await?;
    let script = "while read line; do echo \"got $line\"; done; echo bye";
    let mut call = sandbox.start(&interactive(script)).await?;
    for turn in 0..50 {
        call.writer().write(format!("{turn}\n").into_bytes());
        until_printed(&mut call, &format!("got {turn}\n")).await?;
    }
    call.writer().close();
    let (stdout, _, end) = finish(&mut call).await;
    same!((stdout.as_slice(), end.reason), (&b"bye\n"[..], EndReason::Done), "end");
    Ok(())
}

async fn both_outputs_are_apart_and_in_order(f: &Fixture) -> anyhow::Result<()> {
    let sandbox = f.sandbox().await?;
    let script = "i=0; while [ $i -lt 2000 ]; do echo o$i; echo e$i >&2; i=$((i + 1)); done";
    let finished = run(&sandbox, script).await?;
    let lines = |prefix: &str| (0..2000).map(|i| format!("{prefix}{i}\n")).collect::<String>();
    ensure!(finished.stdout.text() == lines("o"), "standard output is not as written");
    ensure!(finished.stderr.text() == lines("e"), "standard error is not as written");
    Ok(())
}

async fn binary_output_is_untouched(f: &Fixture) -> anyhow::Result<()> {
    let sandbox = f.sandbox().await?;
    let bytes: Vec<u8> = (0..=255).cycle().take(4096).collect();
    put(&sandbox, &at_home(&sandbox, "bytes"), &bytes).await?;
    let finished = run(&sandbox, "cat bytes; cat bytes >&2").await?;
    ensure!(finished.stdout.bytes() == bytes, "standard output differs");
    ensure!(finished.stderr.bytes() == bytes, "standard error differs");
    Ok(())
}

/// S11.
async fn twenty_megabytes_come_out_whole(f: &Fixture) -> anyhow::Result<()> {
    let sandbox = f.sandbox().await?;
    let bytes = Random::bytes(2, 1_000_000);
    put(&sandbox, &at_home(&sandbox, "bytes"), &bytes).await?;
    let script = "for i in 1 2 3 4 5 6 7 8 9 10; do cat bytes bytes; done";
    let mut call = sandbox.start(&Command::shell(script)).await?;
    let (stdout, _, end) = finish(&mut call).await;
    same!(end.reason, EndReason::Done, "end");
    same!((stdout.len(), end.usage.output_bytes), (20_000_000, 20_000_000), "length");
    let want = (0..20).fold(Sha256::new(), |hash, _| hash.chain_update(&bytes));
    ensure!(Sha256::digest(&stdout) == want.finalize(), "the bytes differ");
    Ok(())
}

/// What was written just before the exit is not cut off, many times over.
async fn output_before_the_end_is_never_lost(f: &Fixture) -> anyhow::Result<()> {
    let sandbox = f.sandbox().await?;
    for round in 0..40 {
        let finished = run(&sandbox, "head -c 100000 /dev/zero; echo end >&2").await?;
        let seen = (finished.stdout.bytes().len(), finished.stderr.text());
        same!(seen, (100_000, "end\n".to_owned()), "round {round}");
    }
    // Nor is what was written as soon as the program ran. Several at a time, so
    // that the guest is busy with others when it comes.
    let sandbox = Arc::new(sandbox);
    let mut calls = tokio::task::JoinSet::new();
    for _ in 0..4 {
        let sandbox = sandbox.clone();
        calls.spawn(async move {
            for round in 0..100 {
                let command = Command::new(["/bin/echo", "at once"]);
                let finished = sandbox.execute(&command).await?;
                same!(finished.stdout.text(), "at once\n", "round {round}");
            }
            anyhow::Ok(())
        });
    }
    while let Some(result) = calls.join_next().await {
        result??;
    }
    Ok(())
}

async fn execute_keeps_beginning_and_end(f: &Fixture) -> anyhow::Result<()> {
    let sandbox = f.sandbox().await?;
    let finished = run(&sandbox, "echo first; head -c 6000000 /dev/zero; echo last").await?;
    let kept = finished.stdout;
    ensure!(kept.head.starts_with(b"first\n"), "the beginning is not kept");
    ensure!(kept.tail.ends_with(b"last\n"), "the end is not kept");
    let total = kept.head.len() as u64 + kept.omitted + kept.tail.len() as u64;
    same!((total, kept.is_truncated()), (6_000_011, true), "length");
    Ok(())
}

/// S5.
async fn too_much_output_ends_the_call(f: &Fixture) -> anyhow::Result<()> {
    let sandbox = f.limited(|limits| limits.output_bytes = MIB).await?;
    let mut call = sandbox.start(&Command::shell("trap '' TERM PIPE; yes")).await?;
    let (stdout, _, end) = finish(&mut call).await;
    same!((end.reason, end.status()), (EndReason::Output, 119), "end");
    ensure!(stdout.len() as u64 <= MIB, "{} bytes were given out", stdout.len());
    ensure!(end.usage.output_bytes > MIB, "{} bytes were counted", end.usage.output_bytes);
    same!(output(&sandbox, "echo alive").await?, "alive\n", "afterwards");
    Ok(())
}

/// S5: what fits exactly is no excess; both streams count together.
async fn too_many_errors_end_the_call(f: &Fixture) -> anyhow::Result<()> {
    let sandbox = f.limited(|limits| limits.output_bytes = 100_000).await?;
    let fits = run(&sandbox, "head -c 50000 /dev/zero; head -c 50000 /dev/zero >&2").await?;
    same!(fits.end.reason, EndReason::Done, "at the limit");
    let script = "head -c 50000 /dev/zero; head -c 50001 /dev/zero >&2; sleep 9";
    same!(run(&sandbox, script).await?.end.reason, EndReason::Output, "over the limit");
    Ok(())
}

async fn a_call_runs_on_without_a_listener(f: &Fixture) -> anyhow::Result<()> {
    let sandbox = f.sandbox().await?;
    let script = "head -c 5000000 /dev/zero; echo x > done.part; mv done.part done";
    drop(sandbox.start(&Command::shell(script)).await?);
    let wait = "while [ ! -e done ]; do sleep 0.01; done; cat done";
    same!(output(&sandbox, wait).await?, "x\n", "what the call wrote");
    Ok(())
}

/// Output that is not taken waits in the program, not in the host's memory.
async fn a_slow_listener_holds_the_program_back(f: &Fixture) -> anyhow::Result<()> {
    let sandbox = f.sandbox().await?;
    let script = "i=0; while [ $i -lt 64 ]; do head -c 524288 /dev/zero; i=$((i + 1)); \
        echo $i > progress.part; mv progress.part progress; done";
    let mut call = sandbox.start(&Command::shell(script)).await?;
    // Until it stops: two looks with a round trip between them see the same.
    let look = "cat progress 2>/dev/null; sleep 0.2; cat progress";
    let seen = loop {
        let text = output(&sandbox, look).await?;
        let values: Vec<u32> = text.lines().filter_map(|line| line.parse().ok()).collect();
        if let [first, second] = values[..]
            && first == second
        {
            break second;
        }
    };
    ensure!(seen < 32, "{} MiB were written though nobody took them", seen / 2);
    let mut taken = 0;
    let end = loop {
        match call.next().await {
            Event::Stdout(bytes) | Event::Stderr(bytes) => taken += bytes.len(),
            Event::End(end) => break end,
        }
    };
    same!((end.reason, taken), (EndReason::Done, 32 << 20), "all of it came");
    Ok(())
}
