//! KRN: the kernel's attack surface, from inside.

use std::path::Path;

use anyhow::{Context as _, ensure};
use belljar_domain::{Spec, Tier, User};
use belljar_engine::seccomp::numbers;
use belljar_node::Defence::{
    Keyring, Landlock, NoNewPrivs, NoSuid, ProcHiding, ReadOnlyProc, Seccomp, UidSplit, UsernsLimit,
};
use belljar_node::{Command, PtySize};

use crate::attack::{Act, Attack, Control, Payload, Run, Seen, full, payload, verdict};
use crate::harness::findings::Findings;
use crate::harness::launch::KEY_NAME;
use crate::harness::smuggled::PLACES;
use crate::harness::stage::{Ran, Stage};
use crate::harness::{disk, golden};

/// What stops almost all of this class.
const FILTER: Control = Control::Without(&[Seccomp]);

/// A file that all sandboxes share with the host.
const SHARED_FILE: &str = "/usr/bin/env";

pub(crate) fn attacks() -> Vec<Attack> {
    let one = |id, payload: Payload, control| Attack::new(id, Act::Payload(payload), control);
    let driven = |id, act, control| Attack::new(id, Act::Driven(act), control);
    vec![
        one("KRN-01", payload("krn/krn_01.c"), Control::Without(&[Seccomp, UsernsLimit])),
        one("KRN-02", payload("krn/krn_02.c"), FILTER),
        one("KRN-03", payload("krn/krn_03.c"), FILTER),
        driven("KRN-04", |stage| page_cache(stage, "krn/krn_04.c"), FILTER),
        one("KRN-05", payload("krn/krn_05.c"), FILTER),
        one("KRN-06", payload("krn/krn_06.c"), FILTER),
        driven("KRN-07", |stage| page_cache(stage, "krn/krn_07.c"), FILTER),
        driven("KRN-08", |stage| page_cache(stage, "krn/krn_08.c"), FILTER),
        one(
            "KRN-09",
            payload("krn/krn_09.c").args(&["2"]),
            Control::Because("every kernel that Belljar runs on has it fixed"),
        ),
        one("KRN-10", payload("krn/krn_10.c"), FILTER),
        one("KRN-11", payload("krn/krn_11.c"), FILTER),
        one("KRN-12", payload("krn/krn_12.c"), FILTER),
        one(
            "KRN-13",
            payload("krn/krn_13.c"),
            Control::Each(&[&[Seccomp], &[Seccomp, UidSplit, ProcHiding, Landlock]]),
        ),
        driven("KRN-14", |stage| Box::pin(terminal(stage)), FILTER),
        driven(
            "KRN-15",
            |stage| Box::pin(keyring(stage)),
            Control::Each(&[&[Seccomp], &[Seccomp, Keyring]]),
        ),
        one("KRN-16", payload("krn/krn_16.c"), FILTER),
        one("KRN-17", payload("krn/krn_17.c").args_from(sockets), FILTER),
        one("KRN-18", payload("krn/krn_18.c"), Control::Each(&[&[Seccomp], &[ProcHiding]])),
        // Landlock and seccomp cannot be had without `no_new_privs`.
        driven(
            "KRN-19",
            |stage| Box::pin(smuggled(stage, "krn/krn_19.c", &["setuid", "setgid"])),
            Control::Each(&[
                &[NoSuid],
                &[NoNewPrivs, Landlock, Seccomp],
                &[NoSuid, NoNewPrivs, Landlock, Seccomp],
            ]),
        ),
        driven(
            "KRN-20",
            |stage| Box::pin(smuggled(stage, "krn/krn_20.c", &["capable"])),
            Control::Because("the bounding set is empty and nothing in the engine can fill it"),
        ),
        one("KRN-21", payload("krn/krn_21.c"), FILTER),
        one("KRN-22", payload("krn/krn_22.c"), FILTER),
        one("KRN-23", payload("krn/krn_23.c"), FILTER),
        driven("KRN-24", |stage| Box::pin(sweep(stage)), FILTER),
        driven("KRN-25", |stage| Box::pin(dirty_arguments(stage)), FILTER),
        one("KRN-26", payload("krn/krn_26.c"), FILTER),
        driven(
            "KRN-27",
            |stage| Box::pin(landlock(stage)),
            Control::Without(&[Landlock, ReadOnlyProc]),
        ),
        driven("KRN-28", |stage| page_cache(stage, "krn/krn_28.c"), FILTER),
        one(
            "KRN-29",
            payload("krn/krn_29.c").args(&["3"]),
            Control::Because("a fuzz has no defence to switch off"),
        )
        .alone("it keeps the kernel busy with calls made at random"),
        one("KRN-30", payload("krn/krn_30.c"), FILTER),
        driven(
            "KRN-31",
            |stage| Box::pin(doors_of_root(stage)),
            Control::Without(&[Seccomp, UsernsLimit]),
        ),
        one("KRN-32", payload("krn/krn_32.c").as_full_root(), FILTER),
    ]
}

/// Attacks that must fail for root with the profile `full` as they do for a user.
const DOORS: [&str; 19] = [
    "krn/krn_01.c",
    "krn/krn_02.c",
    "krn/krn_10.c",
    "krn/krn_11.c",
    "krn/krn_12.c",
    "krn/krn_13.c",
    "krn/krn_15.c",
    "krn/krn_17.c",
    "krn/krn_18.c",
    "krn/krn_21.c",
    "krn/krn_22.c",
    "krn/krn_23.c",
    "krn/krn_26.c",
    "sys/sys_02.c",
    "sys/sys_03.c",
    "sys/sys_05.c",
    "sys/sys_08.c",
    "sys/sys_11.c",
    "sys/sys_13.c",
];

/// Namespaces, programs and modules of the kernel, tracing, keys, raw sockets, mounts, handles,
/// devices, clocks: none of it is for the capabilities of root.
async fn doors_of_root(stage: Stage) -> anyhow::Result<Seen> {
    let mut findings = Findings::default();
    let sandbox = stage.sandbox(full).await?;
    for file in DOORS {
        let mut command = stage.place(&sandbox, file, &[""; 0]).await?;
        command.user = User::Root;
        let ran = stage.exec(&sandbox, &command).await?;
        match verdict(&ran).context(file)? {
            Seen::Breach(text) => findings.breach(format!("{file}: {text}")),
            _ => findings.held(format!("{file} as root")),
        }
        if findings.is_breached() {
            break;
        }
    }
    Ok(findings.seen())
}

/// Attacks on the page cache of a shared file: afterwards the file must be the
/// same in memory and on disk.
fn page_cache(stage: Stage, file: &'static str) -> Run {
    Box::pin(async move {
        let sandbox = stage.sandbox(|_| {}).await?;
        let ran = stage.run(&sandbox, file, &[SHARED_FILE]).await?;
        disk::is_unchanged(Path::new(SHARED_FILE))?;
        verdict(&ran)
    })
}

/// Once with pipes, once with a terminal of the call's own.
async fn terminal(stage: Stage) -> anyhow::Result<Seen> {
    let sandbox = stage.sandbox(|_| {}).await?;
    let command = stage.place(&sandbox, "krn/krn_14.c", &[""; 0]).await?;
    let pipes = verdict(&stage.exec(&sandbox, &command).await?)?;
    let with_terminal = Command { pty: Some(PtySize { rows: 24, cols: 80 }), ..command };
    let pty = verdict(&stage.exec(&sandbox, &with_terminal).await?)?;
    Ok(match (pipes, pty) {
        (Seen::Held(pipes), Seen::Held(pty)) => Seen::Held(format!("{pipes}; pty: {pty}")),
        (Seen::Held(_), other) | (other, _) => other,
    })
}

/// The process tier has no network of its own, and so no sockets but pairs.
fn sockets(stage: &Stage) -> Vec<String> {
    if stage.tier == Tier::Process { vec!["pairs".to_owned()] } else { Vec::new() }
}

/// The planted key must be out of reach even where the filter is off.
async fn keyring(stage: Stage) -> anyhow::Result<Seen> {
    use belljar_node::Weakened;
    let sandbox = stage.sandbox(|_| {}).await?;
    let ran = stage.run(&sandbox, "krn/krn_15.c", &[KEY_NAME]).await?;
    let found = ran.text().contains("found the planted key");
    let keyring_off = stage.weakened == Weakened::without_all(&[Seccomp, Keyring]);
    ensure!(found == keyring_off, "the planted key: found {found}, own keyring {}", !keyring_off);
    verdict(&ran)
}

/// Programs that an image brought along must not give rights.
async fn smuggled(
    stage: Stage,
    file: &'static str,
    names: &'static [&'static str],
) -> anyhow::Result<Seen> {
    let sandbox = stage.sandbox(|spec| stage.smuggled.add_to(spec)).await?;
    let paths: Vec<String> = PLACES
        .iter()
        .flat_map(|place| names.iter().map(move |name| format!("{place}/{name}")))
        .collect();
    let ran = stage.run(&sandbox, file, &paths).await?;
    let seen = verdict(&ran)?;
    if let Seen::Held(text) = &seen {
        for path in &paths {
            ensure!(text.contains(path), "{path} was not tried: {}", ran.ending());
        }
    }
    let every_lock_off = [NoSuid, NoNewPrivs].iter().all(|&lock| !stage.weakened.keeps(lock));
    if every_lock_off {
        ensure!(ran.text().contains("changed the effective ids"), "no id gained: {}", ran.ending());
    }
    Ok(seen)
}

/// Compares what the filter lets through, and what it kills for, with the
/// golden list.
async fn sweep(stage: Stage) -> anyhow::Result<Seen> {
    let sandbox = stage.sandbox(|_| {}).await?;
    let ran = stage.run(&sandbox, "krn/krn_24.c", &[""; 0]).await?;
    let seen = verdict(&ran)?;
    if stage.is_control() || matches!(seen, Seen::Breach(_)) {
        return Ok(seen);
    }
    let mut lines = answers(&ran, "allowed")?;
    lines.extend(answers(&ran, "killed")?);
    lines.sort();
    let file = match stage.tier {
        Tier::Process => "syscalls-process.txt",
        _ => "syscalls-jail.txt",
    };
    golden::compare(file, &lines, stage.bless)
}

fn answers(ran: &Ran, answer: &str) -> anyhow::Result<Vec<String>> {
    let heard = ran.after(&format!("NOTE {answer}:"));
    let list = heard.first().with_context(|| format!("no list of {answer} calls"))?;
    let name = |number: u32| {
        let known = numbers::TABLE.iter().find(|(known, _)| *known == number);
        known.map_or("unknown", |(_, name)| name)
    };
    let numbers = list.split_whitespace().map(str::parse::<u32>);
    let lines = numbers.map(|number| number.map(|n| format!("{n:03} {} {answer}", name(n))));
    Ok(lines.collect::<Result<_, _>>()?)
}

/// Without the filter, a filter with the bug shows that the check finds it.
async fn dirty_arguments(stage: Stage) -> anyhow::Result<Seen> {
    let sandbox = stage.sandbox(|_| {}).await?;
    let args: &[&str] = if stage.is_control() { &["flawed"] } else { &[] };
    verdict(&stage.run(&sandbox, "krn/krn_25.c", args).await?)
}

/// The port is a canary of the host: not even that may be reached. The rules are made of
/// what is in `/`, so a template with links there is tried as well.
async fn landlock(stage: Stage) -> anyhow::Result<Seen> {
    let plain = around_landlock(&stage, |_| {}).await?;
    if stage.tier == Tier::Microvm || stage.tier == Tier::Process {
        // A machine's disk is made of whole templates; the process tier has none.
        return Ok(plain);
    }
    let linked = around_landlock(&stage, |spec| stage.smuggled.link_in_root(spec)).await?;
    Ok(match (plain, linked) {
        (Seen::Held(plain), Seen::Held(linked)) => {
            Seen::Held(format!("{plain}; with links in the root: {linked}"))
        }
        (Seen::Held(_), Seen::Breach(linked)) => {
            Seen::Breach(format!("with links in the root: {linked}"))
        }
        (other, _) => other,
    })
}

async fn around_landlock(stage: &Stage, tune: impl FnOnce(&mut Spec)) -> anyhow::Result<Seen> {
    let sandbox = stage.sandbox(tune).await?;
    let port = stage.canaries().port().to_string();
    verdict(&stage.run(&sandbox, "krn/krn_27.c", &[&*port]).await?)
}
