//! Calls with a terminal.
//!
//! Requirements: S8

use anyhow::ensure;
use belljar_domain::EndReason;
use belljar_node::{Command, PtySize};

use crate::fixture::Fixture;
use crate::verbs::{errno, finish, lossy, output_of, refused, until_printed};
use crate::{cases, same};

cases!["terminal":
    a_terminal_is_one,
    pipes_are_not_a_terminal,
    the_size_can_change,
    a_call_without_a_terminal_has_no_size,
    control_c_interrupts,
    control_d_ends_the_input,
    a_shell_can_be_talked_to,
    terminals_are_apart,
];

fn on_terminal(script: &str) -> Command {
    Command { pty: Some(PtySize { rows: 30, cols: 100 }), ..Command::shell(script) }
}

async fn a_terminal_is_one(f: &Fixture) -> anyhow::Result<()> {
    let sandbox = f.sandbox().await?;
    let script = "test -t 0 && test -t 1 && test -t 2 && tty && stty size && echo $TERM; \
        echo err >&2; ls -l /proc/self/fd/0 > /dev/null; exec 3< /dev/tty && echo controls";
    let text = output_of(&sandbox, &on_terminal(script)).await?;
    ensure!(text.starts_with("/dev/pts/"), "tty says {text:?}");
    let rest = text.split_once("\r\n").map(|(_, rest)| rest).unwrap_or_default();
    same!(rest, "30 100\r\nxterm-256color\r\nerr\r\ncontrols\r\n", "terminal");
    Ok(())
}

async fn pipes_are_not_a_terminal(f: &Fixture) -> anyhow::Result<()> {
    let sandbox = f.sandbox().await?;
    let script = "for i in 0 1 2; do test -t $i && echo $i; done; \
        (exec 3< /dev/tty) 2>/dev/null && echo controls; echo end";
    same!(output_of(&sandbox, &Command::shell(script)).await?, "end\n", "terminals");
    Ok(())
}

async fn the_size_can_change(f: &Fixture) -> anyhow::Result<()> {
    let sandbox = f.sandbox().await?;
    let script = "trap 'stty size; exit 0' WINCH; stty size; while :; do sleep 0.01; done";
    let mut call = sandbox.start(&on_terminal(script)).await?;
    until_printed(&mut call, "30 100\r\n").await?;
    call.resize(PtySize { rows: 50, cols: 200 }).await?;
    let (stdout, _, end) = finish(&mut call).await;
    same!((lossy(&stdout).as_str(), end.reason), ("50 200\r\n", EndReason::Done), "new size");
    Ok(())
}

async fn a_call_without_a_terminal_has_no_size(f: &Fixture) -> anyhow::Result<()> {
    let sandbox = f.sandbox().await?;
    let call = sandbox.start(&Command::shell("sleep 9")).await?;
    let resized = call.resize(PtySize { rows: 1, cols: 1 }).await;
    refused(resized, "resize", &[errno::ENOTTY])?;
    call.kill();
    Ok(())
}

async fn control_c_interrupts(f: &Fixture) -> anyhow::Result<()> {
    let sandbox = f.sandbox().await?;
    let mut call = sandbox.start(&on_terminal("echo ready; exec sleep 9")).await?;
    until_printed(&mut call, "ready").await?;
    call.writer().write(vec![3]);
    let (_, _, end) = finish(&mut call).await;
    same!((end.reason, end.signal), (EndReason::Exit, Some(2)), "end");
    Ok(())
}

async fn control_d_ends_the_input(f: &Fixture) -> anyhow::Result<()> {
    let sandbox = f.sandbox().await?;
    let mut call = sandbox.start(&on_terminal("stty -echo; echo ready; cat; echo bye")).await?;
    until_printed(&mut call, "ready\r\n").await?;
    call.writer().write(b"line\n".to_vec());
    until_printed(&mut call, "line\r\n").await?;
    call.writer().write(vec![4]);
    let (stdout, _, end) = finish(&mut call).await;
    same!((lossy(&stdout).as_str(), end.reason), ("bye\r\n", EndReason::Done), "end");
    Ok(())
}

async fn a_shell_can_be_talked_to(f: &Fixture) -> anyhow::Result<()> {
    let sandbox = f.sandbox().await?;
    let mut command = on_terminal("");
    command.argv = ["/bin/sh", "-i"].map(|word| word.as_bytes().to_vec()).into();
    command.env = vec![(b"PS1".to_vec(), b"ask> ".to_vec())];
    let mut call = sandbox.start(&command).await?;
    until_printed(&mut call, "ask> ").await?;
    call.writer().write(b"echo $((6 * 7))\n".to_vec());
    until_printed(&mut call, "\n42\r\n").await?;
    // Job control: a stopped job does not stop the shell.
    call.writer().write(b"sleep 9\n".to_vec());
    until_printed(&mut call, "sleep 9\r\n").await?;
    call.writer().write(vec![3]);
    until_printed(&mut call, "ask> ").await?;
    call.writer().write(b"exit 5\n".to_vec());
    let (_, _, end) = finish(&mut call).await;
    same!(end.exit_code, Some(5), "exit");
    Ok(())
}

async fn terminals_are_apart(f: &Fixture) -> anyhow::Result<()> {
    let sandbox = f.sandbox().await?;
    let mut calls = Vec::new();
    for number in 0..5 {
        let script = format!("echo ready; read line; echo {number} heard $line");
        let mut call = sandbox.start(&on_terminal(&script)).await?;
        until_printed(&mut call, "ready").await?;
        calls.push(call);
    }
    for (number, call) in calls.iter_mut().enumerate() {
        call.writer().write(format!("word{number}\n").into_bytes());
        let want = format!("{number} heard word{number}\r\n");
        until_printed(call, &want).await?;
    }
    Ok(())
}
