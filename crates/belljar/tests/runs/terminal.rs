//! What people see at a terminal.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;
use std::process::Stdio;

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

use crate::ask::{belljar, command};
use crate::world::{TEMPLATE, World};

/// What a command prints to a terminal of that width, and to standard error.
async fn at_terminal(
    place: &Path,
    columns: u16,
    plain: bool,
    arguments: &[&str],
) -> (String, String) {
    let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
    grantpt(&master).unwrap();
    unlockpt(&master).unwrap();
    let size = Winsize { ws_row: 40, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
    tcsetwinsize(&master, size).unwrap();
    let name = ptsname(&master, Vec::new()).unwrap();
    let slave = File::options().read(true).write(true).open(name.to_str().unwrap()).unwrap();
    let mut command = command(place, arguments);
    command.stdout(Stdio::from(slave)).stderr(Stdio::piped()).env_remove("NO_COLOR");
    if plain {
        command.env("NO_COLOR", "1");
    }
    let child = command.spawn().unwrap();
    // It holds the other end, too.
    drop(command);
    let mut master = File::from(master);
    let reading = tokio::task::spawn_blocking(move || {
        let mut seen = Vec::new();
        // The end of a terminal is an error.
        let _ = master.read_to_end(&mut seen);
        String::from_utf8_lossy(&seen).replace("\r\n", "\n")
    });
    let output = child.wait_with_output().await.unwrap();
    (reading.await.unwrap(), String::from_utf8_lossy(&output.stderr).into_owned())
}

fn widest(text: &str) -> usize {
    text.lines().map(|line| line.chars().count()).max().unwrap_or(0)
}

pub(crate) async fn answers_fit_the_terminal_and_files_stay_with_the_run(world: &World) {
    let place = tempfile::tempdir_in(world.directory.path()).unwrap();
    let place = place.path();
    let rows: String = (0..400)
        .map(|n| format!("{},{},{}.25\n", 1000 + n, ["north", "south"][n % 2], 5000 + n))
        .collect();
    std::fs::write(place.join("sales.csv"), format!("order_id,region,revenue\n{rows}")).unwrap();
    let question = "What is the total revenue by region?";
    let ask = ["ask", question, "--template", TEMPLATE, "--data", "sales.csv"];
    for columns in [80, 120] {
        let (seen, told) = at_terminal(place, columns, true, &ask).await;
        assert!(seen.contains("region") && seen.contains("1,039,850"), "{seen}{told}");
        assert!(!seen.contains('|') && !seen.contains('\x1b'), "{seen}");
        assert!(widest(&seen) <= columns.into(), "{seen}");
        // No code unless it is asked for.
        assert!(told.contains("turn 1") && !told.contains("import "), "{told}");
        assert!(told.contains("files kept with the run: "), "{told}");
    }
    let (seen, _) = at_terminal(place, 80, false, &ask).await;
    assert!(seen.contains("\x1b[1m"), "{seen}");
    let verbose = belljar(place, &[&ask[..], &["-v"]].concat()).await;
    assert!(verbose.stderr.contains("import "), "{}", verbose.stderr);
    // In a pipe it is what was answered.
    assert!(
        verbose.stdout.contains("| --- |") || verbose.stdout.contains("|---"),
        "{}",
        verbose.stdout
    );
    assert!(!verbose.stdout.contains("1,039"), "{}", verbose.stdout);
    let left: Vec<_> =
        std::fs::read_dir(place).unwrap().map(|it| it.unwrap().file_name()).collect();
    assert!(left.iter().all(|name| name == "sales.csv" || name == "server"), "{left:?}");

    let (list, _) = at_terminal(place, 80, true, &["runs", "list"]).await;
    assert!(
        list.starts_with("RUN ") && list.contains(" QUESTION") && widest(&list) <= 80,
        "{list}"
    );
    let id = list.lines().nth(2).unwrap().split(' ').next().unwrap().to_owned();
    assert!(id.len() < 26, "{list}");
    for columns in [80, 120] {
        let (shown, _) = at_terminal(place, columns, true, &["runs", "show", &id]).await;
        assert!(shown.contains(question) && widest(&shown) <= columns.into(), "{shown}");
    }
    let written = belljar(place, &["ask", "--resume", &id, "--out", "out"]).await;
    assert_eq!(written.status, Some(0), "{}", written.stderr);
    assert!(place.join("out/result.md").exists());
    let cost = belljar(place, &["runs", "cost", &id]).await;
    assert!(cost.stdout.starts_with("RUN ") && cost.stdout.contains(&id), "{}", cost.stdout);
    let json = belljar(place, &["runs", "list", "--json"]).await;
    let rows: serde_json::Value = serde_json::from_str(&json.stdout).unwrap();
    assert_eq!(rows[0]["run"].as_str().map(str::len), Some(26));
    let (described, _) = at_terminal(place, 80, true, &["dataset", "describe", "sales.csv"]).await;
    assert!(widest(&described) <= 80 && described.contains("400 records"), "{described}");
}
