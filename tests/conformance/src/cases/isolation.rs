//! Two sandboxes, and a sandbox and its host, cannot see each other. The attack suite
//! tries harder; this is what honest programs notice.
//!
//! Requirements: S3, S4, S6

use std::io::Read as _;
use std::net::TcpListener;

use anyhow::ensure;
use belljar_domain::User;
use belljar_node::{Command, Leftovers, Sandbox};

use crate::fixture::Fixture;
use crate::verbs::{at_home, get, output, output_of, put, python, refused, run, until_printed};
use crate::{cases, same};

cases!["isolation":
    files_are_its_own,
    files_of_another_are_out_of_reach,
    processes_are_its_own needs [OwnProcesses],
    processes_of_another_cannot_be_signalled,
    loopback_ports_are_its_own needs [OwnNetwork, Python],
    the_host_is_not_reached_by_tcp needs [Python],
    there_is_no_other_network needs [OwnNetwork],
    abstract_sockets_are_its_own needs [OwnAbstractSockets, Python],
    ipc_is_its_own needs [OwnIpc, Python],
    shared_memory_is_its_own needs [OwnRoot],
    the_host_name_says_nothing needs [OwnRoot],
    the_hosts_files_are_not_there,
    a_new_sandbox_is_fresh,
    the_base_is_as_it_was needs [RootUser],
    names_in_the_root_directory_can_be_made needs [OwnRoot, RootUser],
];

async fn files_are_its_own(f: &Fixture) -> anyhow::Result<()> {
    let (one, two) = (f.sandbox().await?, f.sandbox().await?);
    put(&one, &at_home(&one, "file"), b"one").await?;
    put(&two, &at_home(&two, "file"), b"two").await?;
    same!(get(&one, &at_home(&one, "file")).await?, b"one", "the first's file");
    same!(output(&two, "cat file; ls").await?, "twofile\n", "the second's files");
    Ok(())
}

/// Even by their full path, should the other know it.
async fn files_of_another_are_out_of_reach(f: &Fixture) -> anyhow::Result<()> {
    let (one, two) = (f.sandbox().await?, f.sandbox().await?);
    let secret = at_home(&one, "secret-of-one");
    put(&one, &secret, b"secret").await?;
    refused(get(&two, &secret).await, "download", &[])?;
    let mut cat = Command::new(["/bin/cat"]);
    cat.argv.push(secret);
    ensure!(two.execute(&cat).await?.stdout.bytes().is_empty(), "the other's file was read");
    Ok(())
}

async fn processes_are_its_own(f: &Fixture) -> anyhow::Result<()> {
    let (one, two) = (f.sandbox().await?, f.sandbox().await?);
    let look = "cat /proc/[0-9]*/cmdline | tr '\\0' ' '; ls -d /proc/[0-9]*";
    let script = format!("sleep 9 & {look}; echo ready; wait");
    let mut call = one.start(&Command::shell(&script)).await?;
    let own = until_printed(&mut call, "ready").await?;
    ensure!(own.contains("sleep 9"), "its own process is not there: {own}");
    let other = output(&two, look).await?;
    ensure!(!other.contains("sleep 9"), "the other's process is there");
    let count = other.lines().filter(|line| line.starts_with("/proc/")).count();
    ensure!(count <= 6, "{count} processes are seen: {other}");
    call.kill();
    Ok(())
}

async fn processes_of_another_cannot_be_signalled(f: &Fixture) -> anyhow::Result<()> {
    let (one, two) = (f.sandbox().await?, f.sandbox().await?);
    let mut call = one.start(&Command::shell("echo $$; exec sleep 9")).await?;
    let pid = until_printed(&mut call, "\n").await?;
    let guest = one.pid();
    let host = std::process::id();
    let script = format!("kill -9 {} {guest} {host}; kill -9 -1; exit 0", pid.trim());
    run(&two, &script).await?;
    same!(output(&one, "echo alive").await?, "alive\n", "the other sandbox");
    call.signal(15).await?;
    same!(crate::verbs::finish(&mut call).await.2.signal, Some(15), "the other's call");
    Ok(())
}

const LISTEN: &str = "import socket\n\
    s = socket.socket(); s.bind(('127.0.0.1', 45678)); s.listen()\n\
    print('ready', flush=True)\nc, _ = s.accept(); c.sendall(b'hello'); c.close()";

fn connect(port: u16) -> Command {
    python(&format!(
        "import socket\ntry:\n    s = socket.create_connection(('127.0.0.1', {port}), 2)\n    \
         print(s.recv(9))\nexcept OSError as e:\n    print('refused', e)"
    ))
}

async fn loopback_ports_are_its_own(f: &Fixture) -> anyhow::Result<()> {
    let (one, two) = (f.sandbox().await?, f.sandbox().await?);
    let mut first = one.start(&python(LISTEN)).await?;
    until_printed(&mut first, "ready").await?;
    // The same port is free in the other one, and leads to nobody there.
    let text = output_of(&two, &connect(45678)).await?;
    ensure!(text.starts_with("refused"), "the other's port answered: {text}");
    let mut second = two.start(&python(LISTEN)).await?;
    until_printed(&mut second, "ready").await?;
    same!(output_of(&one, &connect(45678)).await?, "b'hello'\n", "its own port");
    second.kill();
    Ok(())
}

async fn the_host_is_not_reached_by_tcp(f: &Fixture) -> anyhow::Result<()> {
    let sandbox = f.sandbox().await?;
    let listener = TcpListener::bind(("127.0.0.1", 0))?;
    listener.set_nonblocking(true)?;
    let text = output_of(&sandbox, &connect(listener.local_addr()?.port())).await?;
    ensure!(text.starts_with("refused"), "the host answered: {text}");
    ensure!(listener.accept().is_err(), "somebody connected");
    Ok(())
}

async fn there_is_no_other_network(f: &Fixture) -> anyhow::Result<()> {
    let sandbox = f.sandbox().await?;
    let text = output(
        &sandbox,
        "tail -n +3 /proc/self/net/dev | cut -d: -f1; cat /proc/self/net/route | wc -l",
    )
    .await;
    // procfs may hide the network altogether, which is as good.
    if let Ok(text) = text {
        let words: Vec<_> = text.split_whitespace().collect();
        ensure!(words == ["lo", "1"] || words == ["lo", "0"], "interfaces and routes: {text}");
    }
    Ok(())
}

async fn abstract_sockets_are_its_own(f: &Fixture) -> anyhow::Result<()> {
    let (one, two) = (f.sandbox().await?, f.sandbox().await?);
    let listen = "import socket\ns = socket.socket(socket.AF_UNIX)\n\
        s.bind('\\0belljar-conformance'); s.listen()\nprint('ready', flush=True)\ns.accept()";
    let ask = python(
        "import socket\ns = socket.socket(socket.AF_UNIX)\ntry:\n    \
         s.connect('\\0belljar-conformance'); print('connected')\nexcept OSError as e:\n    \
         print('refused', e)",
    );
    let mut call = one.start(&python(listen)).await?;
    until_printed(&mut call, "ready").await?;
    let text = output_of(&two, &ask).await?;
    ensure!(text.starts_with("refused"), "the other's socket answered");
    call.kill();
    Ok(())
}

async fn ipc_is_its_own(f: &Fixture) -> anyhow::Result<()> {
    let (one, two) = (f.sandbox().await?, f.sandbox().await?);
    // The objects live on after the program that made them.
    let get = |flags: &str| {
        python(&format!(
            "import ctypes\nc = ctypes.CDLL(None)\nkey, flags = 0xbe11, {flags}\n\
             made = [c.shmget(key, 4096, flags), c.msgget(key, flags), c.semget(key, 1, flags)]\n\
             print([number >= 0 for number in made])"
        ))
    };
    same!(output_of(&one, &get("0o1600")).await?, "[True, True, True]\n", "made");
    same!(output_of(&one, &get("0o600")).await?, "[True, True, True]\n", "found again");
    same!(output_of(&two, &get("0o600")).await?, "[False, False, False]\n", "the other's");
    Ok(())
}

async fn shared_memory_is_its_own(f: &Fixture) -> anyhow::Result<()> {
    let (one, two) = (f.sandbox().await?, f.sandbox().await?);
    output(&one, "echo x > /dev/shm/mine; echo x > /tmp/mine; echo x > /var/tmp/mine").await?;
    same!(
        output(&two, "ls -A /dev/shm /tmp /var/tmp | grep -c mine || true").await?,
        "0\n",
        "files"
    );
    Ok(())
}

async fn the_host_name_says_nothing(f: &Fixture) -> anyhow::Result<()> {
    let sandbox = f.sandbox().await?;
    let mut host = String::new();
    std::fs::File::open("/proc/sys/kernel/hostname")?.read_to_string(&mut host)?;
    let inside = output(&sandbox, "uname -n").await?;
    ensure!(inside.trim() != host.trim(), "the host's name is inside");
    same!(inside.trim(), "sandbox", "name");
    Ok(())
}

/// A file of the host that everybody there may read.
async fn the_hosts_files_are_not_there(f: &Fixture) -> anyhow::Result<()> {
    let sandbox = f.sandbox().await?;
    let file = tempfile::Builder::new().prefix("belljar-canary").tempfile()?;
    std::fs::write(file.path(), "canary")?;
    let open = <std::fs::Permissions as std::os::unix::fs::PermissionsExt>::from_mode(0o644);
    std::fs::set_permissions(file.path(), open)?;
    let path = file.path().to_string_lossy().into_owned();
    let finished = run(&sandbox, &format!("cat {path}")).await?;
    ensure!(!finished.stdout.text().contains("canary"), "code read a file of the host");
    refused(get(&sandbox, path.as_bytes()).await, "download", &[])?;
    let leases = f.state.join("leases").display().to_string();
    for path in ["/root/.profile", "/etc/shadow", leases.as_str(), "/home", "/root"] {
        let script = format!("cat {path} 2>/dev/null; ls {path}/ 2>/dev/null; exit 0");
        let text = output(&sandbox, &script).await?;
        let nothing = text.is_empty() || (path == "/home" && text == "user\n");
        ensure!(nothing, "{path} is seen: {text:?}");
    }
    Ok(())
}

/// S3: what one leaves, the next does not find.
async fn a_new_sandbox_is_fresh(f: &Fixture) -> anyhow::Result<()> {
    let leave = "echo x > mark; echo x > \"$TMPDIR\"/mark; echo x > /dev/shm/mark; exit 0";
    let look = "ls -A . \"$TMPDIR\" /dev/shm 2>/dev/null | grep mark; exit 0";
    let first = f.sandbox().await?;
    run(&first, leave).await?;
    let daemon = Command { leftovers: Leftovers::Keep, ..Command::shell("setsid sleep 15 &") };
    first.execute(&daemon).await?;
    ensure!(output(&first, look).await?.contains("mark"), "nothing was left");
    first.destroy().await?;
    let second: Sandbox = f.sandbox().await?;
    same!(output(&second, look).await?, "", "what the next one finds");
    let listing = second.list(User::User, &at_home(&second, ""), 9).await?;
    same!(listing.entries.len(), 0, "files at home");
    Ok(())
}

/// S4: root changes its copy of the base, not the base.
async fn the_base_is_as_it_was(f: &Fixture) -> anyhow::Result<()> {
    let first = f.sandbox().await?;
    let script = "echo changed > /etc/services; rm /etc/protocols; echo new > /etc/new; exit 0";
    let command = Command { user: User::Root, ..Command::shell(script) };
    first.execute(&command).await?;
    same!(output(&first, "cat /etc/services /etc/new").await?, "changed\nnew\n", "its copy");
    let second = f.sandbox().await?;
    let seen = run(&second, "cat /etc/services; ls /etc/new").await?.stdout.text();
    ensure!(!seen.contains("changed") && !seen.contains("new\n"), "the base was changed");
    Ok(())
}

/// Programs keep their work in `/workspace` and the like. What is there from the template stays
/// root's.
async fn names_in_the_root_directory_can_be_made(f: &Fixture) -> anyhow::Result<()> {
    let sandbox = f.sandbox().await?;
    let script = "mkdir /workspace && echo kept > /workspace/file && cat /workspace/file; \
                  mv /etc /other 2>/dev/null || echo no; rm -r /workspace && echo removed";
    same!(output(&sandbox, script).await?, "kept\nno\nremoved\n", "what the user does");
    let own = "mkdir /own && echo root > /own/file && cat /own/file";
    let command = Command { user: User::Root, ..Command::shell(own) };
    same!(sandbox.execute(&command).await?.stdout.text(), "root\n", "what root does");
    let theirs =
        run(&sandbox, "rm -r /own 2>/dev/null; echo x > /own/file || cat /own/file").await?;
    same!(theirs.stdout.text(), "root\n", "what is root's");
    let listing = sandbox.list(User::User, b"/", 1).await?;
    ensure!(listing.entries.iter().any(|entry| entry.path == b"/own"), "it is not listed");
    Ok(())
}
