//! Running programs of any language, as on a developer's machine, with nothing of the host inside.
//!
//! Requirements: S1, S6, S8, S9

use anyhow::ensure;
use belljar_domain::{EndReason, Tier, User};
use belljar_node::{Command, Sandbox};

use crate::features::Feature;
use crate::fixture::Fixture;
use crate::verbs::{
    at_home, errno, finish, lossy, output, output_of, put, put_with_mode, python, refused, run,
};
use crate::{cases, same};

cases!["execute":
    arguments_arrive_as_given,
    the_environment_is_only_what_was_given,
    given_variables_win,
    calls_start_at_home,
    a_call_starts_where_it_is_told,
    a_missing_directory_is_refused,
    code_has_no_rights,
    code_has_no_foreign_descriptors,
    root_has_no_rights_either needs [RootUser],
    a_call_has_its_own_pid needs [OwnProcesses],
    exit_statuses_are_told,
    signals_are_told,
    a_missing_program_is_refused,
    what_is_no_program_is_refused,
    programs_are_found_by_path,
    an_empty_command_is_refused,
    a_nul_byte_is_refused,
    a_megabyte_of_arguments_arrives,
    too_many_arguments_are_refused_and_nothing_else,
    python_runs needs [Python],
    javascript_runs needs [JavaScript],
    a_compiler_works needs [Compiler],
    git_works needs [Git],
];

async fn arguments_arrive_as_given(f: &Fixture) -> anyhow::Result<()> {
    let sandbox = f.sandbox().await?;
    let arguments: [&[u8]; 7] = [
        b"/usr/bin/printf",
        b"[%s]",
        b"a b",
        b"",
        b"new\nline",
        b"\xff\xfe",
        "\u{1f980}".as_bytes(),
    ];
    let finished = sandbox.execute(&Command::new(arguments)).await?;
    let want: &[u8] = b"[a b][][new\nline][\xff\xfe][\xf0\x9f\xa6\x80]";
    same!(finished.stdout.bytes(), want, "arguments");
    Ok(())
}

/// S6: nothing of the host's environment is inside.
async fn the_environment_is_only_what_was_given(f: &Fixture) -> anyhow::Result<()> {
    let sandbox = f.sandbox().await?;
    let mut command = Command::new(["/usr/bin/env", "-0"]);
    command.env = vec![(b"GIVEN".to_vec(), b"line\nline \xff".to_vec())];
    let bytes = sandbox.execute(&command).await?.stdout.bytes();
    let all: Vec<&[u8]> = bytes.split(|byte| *byte == 0).filter(|part| !part.is_empty()).collect();
    ensure!(all.contains(&&b"GIVEN=line\nline \xff"[..]), "the given variable is not there");
    let known = ["PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "TMPDIR", "TERM", "GIVEN"];
    for variable in all {
        let name = variable.split(|byte| *byte == b'=').next().unwrap_or_default();
        let name = String::from_utf8_lossy(name).into_owned();
        ensure!(known.contains(&name.as_str()), "the variable {name} comes from nowhere");
    }
    Ok(())
}

async fn given_variables_win(f: &Fixture) -> anyhow::Result<()> {
    let sandbox = f.sandbox().await?;
    let mut command = Command::shell("/usr/bin/printf '%s %s' \"$HOME\" \"$A\"");
    let pair = |key: &str, value: &str| (key.as_bytes().to_vec(), value.as_bytes().to_vec());
    command.env = vec![pair("HOME", "/elsewhere"), pair("A", "1"), pair("A", "2")];
    same!(output_of(&sandbox, &command).await?, "/elsewhere 2", "variables");
    Ok(())
}

async fn calls_start_at_home(f: &Fixture) -> anyhow::Result<()> {
    let sandbox = f.sandbox().await?;
    let home = sandbox.home(User::User);
    let script = "pwd; echo $HOME; touch here && test -O here && touch \"$TMPDIR\"/there";
    same!(output(&sandbox, script).await?, format!("{home}\n{home}\n"), "home");
    Ok(())
}

async fn a_call_starts_where_it_is_told(f: &Fixture) -> anyhow::Result<()> {
    let sandbox = f.sandbox().await?;
    let mut command = Command::new(["/bin/pwd"]);
    command.cwd = Some(b"/usr".to_vec());
    same!(output_of(&sandbox, &command).await?, "/usr\n", "directory");
    Ok(())
}

async fn a_missing_directory_is_refused(f: &Fixture) -> anyhow::Result<()> {
    let sandbox = f.sandbox().await?;
    let mut command = Command::new(["/bin/pwd"]);
    command.cwd = Some(at_home(&sandbox, "missing"));
    refused(sandbox.execute(&command).await, "a missing directory", &[errno::ENOENT])?;
    put(&sandbox, &at_home(&sandbox, "file"), b"").await?;
    command.cwd = Some(at_home(&sandbox, "file"));
    refused(sandbox.execute(&command).await, "a file as directory", &[errno::ENOTDIR])
}

/// S6: not root, no capabilities, no new privileges, filtered.
async fn code_has_no_rights(f: &Fixture) -> anyhow::Result<()> {
    let sandbox = f.sandbox().await?;
    ensure!(output(&sandbox, "id -u").await?.trim() != "0", "the code is root");
    // By the call's first process: not every tier shows it more than itself.
    confined(f, &output_of(&sandbox, &Command::new(["/bin/cat", "/proc/self/status"])).await?)?;
    no_new_privileges(f, &sandbox, User::User).await
}

/// Asked of the kernel itself: not every one shows it in procfs.
async fn no_new_privileges(f: &Fixture, sandbox: &Sandbox, user: User) -> anyhow::Result<()> {
    if f.has(Feature::Python).is_ok() {
        let ask = python("import ctypes; print(ctypes.CDLL(None).prctl(39, 0, 0, 0, 0))");
        same!(output_of(sandbox, &Command { user, ..ask }).await?, "1\n", "NoNewPrivs");
    }
    Ok(())
}

fn confined(f: &Fixture, status: &str) -> anyhow::Result<()> {
    let field = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        line.map(|value| value.trim().to_owned())
    };
    for set in ["CapInh", "CapPrm", "CapEff"] {
        same!(field(set), Some("0000000000000000".to_owned()), "{set}");
    }
    let bounding = match f.tier {
        // Without a user namespace only root can empty it. Nothing can be gained from it: no
        // program has rights of its own where there are no new privileges.
        Tier::Process if !f.node.engine().facts().privileged => {
            let own = std::fs::read_to_string("/proc/self/status")?;
            let line = own.lines().find_map(|line| line.strip_prefix("CapBnd:"));
            line.map(|value| value.trim().to_owned())
        }
        _ => Some("0000000000000000".to_owned()),
    };
    same!(field("CapBnd"), bounding, "CapBnd");
    // gVisor's kernel has none to show.
    let ambient = field("CapAmb").unwrap_or_else(|| "0000000000000000".to_owned());
    same!(ambient, "0000000000000000", "CapAmb");
    let no_new_privileges = field("NoNewPrivs").unwrap_or_else(|| "1".to_owned());
    same!(no_new_privileges, "1", "NoNewPrivs");
    if f.has(Feature::CallFilter).is_ok() {
        same!(field("Seccomp"), Some("2".to_owned()), "Seccomp");
    }
    Ok(())
}

/// S6: only the three standard streams, and what `ls` opens itself.
async fn code_has_no_foreign_descriptors(f: &Fixture) -> anyhow::Result<()> {
    let sandbox = f.sandbox().await?;
    let listed = output_of(&sandbox, &Command::new(["/bin/ls", "/proc/self/fd"])).await?;
    same!(listed, "0\n1\n2\n3\n", "descriptors");
    Ok(())
}

async fn root_has_no_rights_either(f: &Fixture) -> anyhow::Result<()> {
    let sandbox = f.sandbox().await?;
    let script = "id -u; cat /proc/self/status; echo made > /etc/made && cat /etc/made";
    let command = Command { user: User::Root, ..Command::shell(script) };
    let text = output_of(&sandbox, &command).await?;
    ensure!(text.starts_with("0\n"), "root is {:?}", text.lines().next());
    ensure!(text.ends_with("made\n"), "root cannot change the base's copy");
    confined(f, &text)?;
    no_new_privileges(f, &sandbox, User::Root).await
}

async fn exit_statuses_are_told(f: &Fixture) -> anyhow::Result<()> {
    let sandbox = f.sandbox().await?;
    for code in [0, 1, 2, 126, 127, 128, 255] {
        let end = run(&sandbox, &format!("exit {code}")).await?.end;
        let reason = if code == 0 { EndReason::Done } else { EndReason::Exit };
        same!((end.reason, end.exit_code, end.signal), (reason, Some(code), None), "exit {code}");
        same!(i32::from(end.status()), code, "status");
    }
    Ok(())
}

async fn signals_are_told(f: &Fixture) -> anyhow::Result<()> {
    let sandbox = f.sandbox().await?;
    for signal in [1, 6, 9, 11, 15, 24, 25] {
        let end = run(&sandbox, &format!("kill -{signal} $$; sleep 9")).await?.end;
        let want = (EndReason::Exit, None, Some(signal));
        same!((end.reason, end.exit_code, end.signal), want, "signal {signal}");
        same!(i32::from(end.status()), 128 + signal, "status");
    }
    Ok(())
}

async fn a_missing_program_is_refused(f: &Fixture) -> anyhow::Result<()> {
    let sandbox = f.sandbox().await?;
    for program in ["/usr/bin/no-such-program", "no-such-program", "./missing"] {
        refused(sandbox.execute(&Command::new([program])).await, program, &[errno::ENOENT])?;
    }
    same!(output(&sandbox, "echo alive").await?, "alive\n", "afterwards");
    Ok(())
}

async fn what_is_no_program_is_refused(f: &Fixture) -> anyhow::Result<()> {
    let sandbox = f.sandbox().await?;
    let at = |name: &str| at_home(&sandbox, name);
    put_with_mode(&sandbox, &at("plain"), b"#!/bin/sh\n", 0o644).await?;
    put_with_mode(&sandbox, &at("garbage"), b"\x7fELFgarbage", 0o755).await?;
    put_with_mode(&sandbox, &at("empty"), b"", 0o755).await?;
    put_with_mode(&sandbox, &at("lost"), b"#!/no/such/interpreter\n", 0o755).await?;
    let table = [
        ("plain", errno::EACCES),
        ("garbage", errno::ENOEXEC),
        ("empty", errno::ENOEXEC),
        ("lost", errno::ENOENT),
        (".", errno::EACCES),
    ];
    for (name, error) in table {
        refused(sandbox.execute(&Command::new([at(name)])).await, name, &[error])?;
    }
    Ok(())
}

async fn programs_are_found_by_path(f: &Fixture) -> anyhow::Result<()> {
    let sandbox = f.sandbox().await?;
    let program = at_home(&sandbox, "bin/hello-there");
    put_with_mode(&sandbox, &program, b"#!/bin/sh\necho hello $1\n", 0o755).await?;
    // One of the same name that cannot be run stands in front of it.
    put_with_mode(&sandbox, &at_home(&sandbox, "no/hello-there"), b"", 0o644).await?;
    let home = sandbox.home(User::User);
    let mut command = Command::new(["hello-there", "you"]);
    command.env = vec![(b"PATH".to_vec(), format!("{home}/no:{home}/bin:/bin").into_bytes())];
    same!(output_of(&sandbox, &command).await?, "hello you\n", "by PATH");
    same!(output_of(&sandbox, &Command::new(["echo", "x"])).await?, "x\n", "by default PATH");
    Ok(())
}

async fn an_empty_command_is_refused(f: &Fixture) -> anyhow::Result<()> {
    let sandbox = f.sandbox().await?;
    let nothing = Command::new(Vec::<Vec<u8>>::new());
    refused(sandbox.execute(&nothing).await, "no arguments", &[errno::EINVAL])?;
    refused(sandbox.execute(&Command::new([""])).await, "an empty name", &[])?;
    same!(output(&sandbox, "echo alive").await?, "alive\n", "afterwards");
    Ok(())
}

async fn a_nul_byte_is_refused(f: &Fixture) -> anyhow::Result<()> {
    let sandbox = f.sandbox().await?;
    let nul = b"a\0b".to_vec();
    let echo = || Command::new([b"/bin/echo".to_vec()]);
    let mut in_argument = echo();
    in_argument.argv.push(nul.clone());
    let mut in_value = echo();
    in_value.env = vec![(b"A".to_vec(), nul.clone())];
    let mut in_directory = echo();
    in_directory.cwd = Some(nul.clone());
    let in_program = Command::new([nul]);
    for (what, command) in [
        ("argument", in_argument),
        ("value", in_value),
        ("directory", in_directory),
        ("program", in_program),
    ] {
        refused(sandbox.execute(&command).await, what, &[errno::EINVAL])?;
    }
    same!(output(&sandbox, "echo alive").await?, "alive\n", "afterwards");
    Ok(())
}

fn many_arguments(count: usize) -> Command {
    let mut command = Command::shell("n=0; for a; do n=$((n + ${#a})); done; echo $# $n");
    command.argv.push(b"sh".to_vec());
    command.argv.extend((0..count).map(|_| vec![b'x'; 50_000]));
    command
}

async fn a_megabyte_of_arguments_arrives(f: &Fixture) -> anyhow::Result<()> {
    let sandbox = f.sandbox().await?;
    same!(output_of(&sandbox, &many_arguments(20)).await?, "20 1000000\n", "arguments");
    Ok(())
}

async fn too_many_arguments_are_refused_and_nothing_else(f: &Fixture) -> anyhow::Result<()> {
    let sandbox = f.sandbox().await?;
    let mut one_too_long = Command::new(["/bin/echo"]);
    one_too_long.argv.push(vec![b'x'; 200_000]);
    let too_long = &[errno::E2BIG, errno::ENAMETOOLONG];
    refused(sandbox.execute(&one_too_long).await, "200 kB in one argument", too_long)?;
    let tried = sandbox.execute(&many_arguments(100)).await;
    same!(output(&sandbox, "echo alive").await?, "alive\n", "after 5 MB of arguments");
    refused(tried, "5 MB of arguments", &[errno::E2BIG, errno::EINVAL])
}

/// S9.
async fn python_runs(f: &Fixture) -> anyhow::Result<()> {
    let sandbox = f.sandbox().await?;
    let script = "import json, subprocess, threading\n\
        out = subprocess.run(['echo', 'sub'], capture_output=True, text=True).stdout\n\
        found = []\n\
        thread = threading.Thread(target=lambda: found.append(out.strip()))\n\
        thread.start(); thread.join()\n\
        print(json.dumps({'sum': sum(range(10)), 'found': found}))";
    let text = output_of(&sandbox, &python(script)).await?;
    same!(text, "{\"sum\": 45, \"found\": [\"sub\"]}\n", "Python");
    Ok(())
}

/// S9.
async fn javascript_runs(f: &Fixture) -> anyhow::Result<()> {
    let sandbox = f.limited(|limits| limits.memory_bytes = 2 << 30).await?;
    let script = "setTimeout(() => console.log([1, 2, 3].map(x => x * x).join()), 1)";
    let text = output_of(&sandbox, &Command::new(["/usr/bin/node", "-e", script])).await?;
    same!(text, "1,4,9\n", "JavaScript");
    Ok(())
}

/// S8.
async fn a_compiler_works(f: &Fixture) -> anyhow::Result<()> {
    let sandbox = f.sandbox().await?;
    let source = b"#include <stdio.h>\nint main(void) { puts(\"compiled\"); return 0; }\n";
    put(&sandbox, &at_home(&sandbox, "a.c"), source).await?;
    same!(output(&sandbox, "cc -o a a.c && ./a").await?, "compiled\n", "compiler");
    Ok(())
}

/// S8.
async fn git_works(f: &Fixture) -> anyhow::Result<()> {
    let sandbox = f.sandbox().await?;
    let script = "export GIT_CONFIG_NOSYSTEM=1 GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b \
        GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b\n\
        git init -q r && cd r && echo 1 > f && git add f && git commit -qm first \
        && git log --format=%s";
    same!(output(&sandbox, script).await?, "first\n", "git");
    Ok(())
}

async fn a_call_has_its_own_pid(f: &Fixture) -> anyhow::Result<()> {
    let sandbox = f.sandbox().await?;
    let mut last = 1;
    for _ in 0..3 {
        let mut call = sandbox.start(&Command::shell("echo $$")).await?;
        let pid = call.pid();
        ensure!(pid > last, "pid {pid} after {last}");
        last = pid;
        same!(lossy(&finish(&mut call).await.0).trim(), pid.to_string(), "as it sees itself");
    }
    Ok(())
}
