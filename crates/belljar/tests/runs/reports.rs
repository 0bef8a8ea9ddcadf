//! Reports of runs: over HTTP, and on this machine.
//!
//! Requirements: A12

use serde_json::{Value, json};

use crate::api::Api;
use crate::ask::{belljar, newest};
use crate::world::{TEMPLATE, World};

/// The first turn waits until it is let go on.
const SCRIPT: &str = r#"
    [[turn]]
    call = [{ tool = "shell", input = { command = "while [ ! -e go ]; do sleep 0.02; done; printf '# Totals\\n\\nIt is **7**.<script>alert(1)</script>\\n\\n![Sales](chart:sales.svg)\\n' > report.md; printf '<svg xmlns=\"http://www.w3.org/2000/svg\" onload=\"alert(1)\"><rect width=\"9\" height=\"9\"/></svg>' > sales.svg" } }]
    [[turn]]
    call = [{ tool = "finish", input = { answer = "It is 7.", files = ["report.md", "sales.svg"] } }]
"#;

pub(crate) async fn a_run_has_one_page_that_its_owner_alone_reads(world: &World) {
    let _model = world.scripts.add("reported", SCRIPT).await;
    let (api, stranger) = (Api::new(world), Api::stranger(world));
    let wish = json!({
        "question": "How much is <b>it</b>?", "operation": "reported",
        "data": [{ "name": "a.csv", "content": "x\n7\n" }],
    });
    let made = api.send("POST", "/v1/runs", wish.to_string()).await.json(201);
    let id = made["id"].as_str().unwrap();
    let path = format!("/v1/runs/{id}/report");
    let mut events = api.events(id, "").await;
    events.until("tool_started").await;
    api.get(&path).await.refused(409, "run_unfinished");
    let run = api.run(id).await;
    let sandbox = run["sandbox"].as_str().unwrap();
    let go = format!("/v1/sandboxes/{sandbox}/files/content?path=go");
    api.send("PUT", &go, "").await.json(200);
    events.until("finished").await;

    let report = api.get(&path).await;
    let html = String::from_utf8_lossy(&report.body).into_owned();
    assert_eq!(report.status, 200, "{html}");
    for part in [
        "<h1>Totals</h1>",
        "How much is &lt;b&gt;it&lt;/b&gt;?",
        "It is <strong>7</strong>.",
        "<img src=\"data:image/svg+xml;base64,",
        "alt=\"Sales\"",
        id,
        made["data"][0]["sha256"].as_str().unwrap(),
    ] {
        assert!(html.contains(part), "{part}: {html}");
    }
    assert!(!html.contains("<script") && !html.contains("alert(1)"), "{html}");
    let header = |name: &str| report.headers[name].to_str().unwrap();
    assert_eq!(header("content-type"), "text/html; charset=utf-8");
    assert_eq!(header("x-content-type-options"), "nosniff");
    assert!(header("content-disposition").starts_with("inline;"));
    let policy = header("content-security-policy");
    assert!(policy.starts_with("default-src 'none';") && policy.ends_with("sandbox"), "{policy}");

    // The same bytes each time, so nothing has to be sent again.
    let again = api.get(&path).await;
    assert_eq!(again.body, report.body);
    let tag = header("etag");
    let known = api.send_with("GET", &path, &[("if-none-match", tag)], "").await;
    assert_eq!((known.status.as_u16(), known.body.len()), (304, 0));
    let other = api.send_with("GET", &path, &[("if-none-match", "\"other\"")], "").await;
    assert_eq!(other.body, report.body);

    stranger.get(&path).await.refused(404, "run_not_found");
    let known = stranger.send_with("GET", &path, &[("if-none-match", tag)], "").await;
    known.refused(404, "run_not_found");
}

pub(crate) async fn a_run_of_this_machine_has_a_page_with_a_brand(world: &World) {
    let place = tempfile::tempdir_in(world.directory.path()).unwrap();
    let place = place.path();
    std::fs::write(place.join("sales.csv"), "region,revenue\nnorth,2\nsouth,1\n").unwrap();
    let question = "What is the total revenue by region?";
    let asked =
        belljar(place, &["ask", question, "--template", TEMPLATE, "--data", "sales.csv"]).await;
    assert_eq!(asked.status, Some(0), "{}", asked.stderr);
    let run = newest(place).await;

    let brand = "name = \"Acme Analytics\"\nlight = \"#1d4ed8\"\ndark = \"#93c5fd\"\n";
    std::fs::write(place.join("brand.toml"), brand).unwrap();
    let wish = ["report", run.as_str(), "--open", "no", "--brand", "brand.toml", "--json"];
    let made = belljar(place, &wish).await;
    assert_eq!(made.status, Some(0), "{}", made.stderr);
    let made: Value = serde_json::from_str(&made.stdout).unwrap();
    assert_eq!(made["run"], run.as_str());
    let written = std::fs::read_to_string(place.join(made["path"].as_str().unwrap())).unwrap();
    assert_eq!(made["bytes"], written.len());
    for part in [
        "<h1>What is the total revenue by region?</h1>",
        "Acme Analytics",
        "Fixed rules, and no language model, wrote the text",
        "<td>sales.csv</td>",
    ] {
        assert!(written.contains(part), "{part}: {written}");
    }

    // The same bytes again, to the standard output.
    let shown = ["report", &run[..8], "--brand", "brand.toml", "--out", "-"];
    assert_eq!(belljar(place, &shown).await.stdout, written);
    let plain = belljar(place, &["report", run.as_str(), "--out", "-"]).await.stdout;
    assert!(!plain.contains("Acme") && plain.contains("Belljar"), "{plain}");

    std::fs::write(place.join("brand.toml"), "light = \"#ffff00\"\n").unwrap();
    let refused = belljar(place, &wish).await;
    assert_eq!(refused.status, Some(1));
    assert!(refused.stderr.contains("contrast"), "{}", refused.stderr);
}
