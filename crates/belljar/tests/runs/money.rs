//! Money that ends in the middle of a run: the gateway's, or the run's own.
//!
//! Requirements: G5, O5

use std::path::Path;
use std::time::Duration;

use belljar_journal::event::{Body, LlmRequested, LlmTrouble};
use belljar_journal::{NewEvent, RunView};
use belljar_objects::Digest;
use belljar_scripted::Model;

use crate::ask::{Asked, belljar, scripted};
use crate::world::{MODEL, TEMPLATE, World, turns};

/// Asks a model behind a gateway that is configured with this besides.
async fn ask(place: &Path, model: &Model, dialect: &str, besides: &str, more: &[&str]) -> Asked {
    let settings = format!(
        "[operations.llm]\nkind = \"model\"\nplaintext = true\nupstream = \"http://{}\"\n\
         dialects = [\"{dialect}\"]\nmodels = [\"{MODEL}\"]\n{besides}\n",
        model.address()
    );
    std::fs::write(place.join("gateway.toml"), settings).unwrap();
    let ask = ["ask", "How much?", "--gateway", "gateway.toml", "--template", TEMPLATE];
    belljar(place, &[&ask[..], &["--turns", "9", "--out", "out"], more].concat()).await
}

pub(crate) async fn a_gateway_that_is_out_of_money_ends_the_run_with_what_there_is(world: &World) {
    // The first answer costs four of the six cents.
    const SCRIPT: &str = r#"
        [[turn]]
        say = "I begin."
        call = [{ tool = "write_file", input = { path = "result.md", content = "So far: 41." } }]
        usage = { input = 100, output = 8000 }
        [[turn]]
        call = [{ tool = "finish", input = { answer = "It is 42." } }]
    "#;
    for dialect in ["anthropic-messages", "openai-responses", "openai-chat"] {
        let place = tempfile::tempdir_in(world.directory.path()).unwrap();
        let place = place.path();
        let model = scripted(SCRIPT).await;
        let budget = "budget = { dollars = \"0.06\" }";
        let asked = ask(place, &model, dialect, budget, &[]).await;
        assert_eq!(asked.status, Some(3), "{dialect}: {}{}", asked.stdout, asked.stderr);
        assert_eq!(asked.stdout.trim(), "So far: 41.", "{dialect}");
        assert!(asked.stderr.contains("the budget for models is used up"), "{}", asked.stderr);
        // The second request never left, and was not tried again.
        assert_eq!(model.record().all().len(), 1, "{dialect}");
        let listed = belljar(place, &["runs", "list", "--json"]).await;
        let rows: serde_json::Value = serde_json::from_str(&listed.stdout).unwrap();
        assert_eq!(rows.as_array().unwrap().len(), 1, "{dialect}: {rows}");
    }
}

/// What a run cost, in billionths of a dollar, by its own count.
async fn cost(place: &Path) -> u64 {
    let cost = belljar(place, &["runs", "cost", "--json"]).await;
    let cost: serde_json::Value = serde_json::from_str(&cost.stdout).unwrap();
    cost[0]["nano_dollars"].as_u64().unwrap()
}

pub(crate) async fn a_run_keeps_money_for_its_last_answer_and_never_spends_more(world: &World) {
    // Each answer costs more than a cent.
    const SCRIPT: &str = r#"
        [[turn]]
        say = "I go on."
        call = [{ tool = "shell", input = { command = "echo again" } }]
        usage = { input = 2000, output = 2000 }
    "#;
    for dialect in ["anthropic-messages", "openai-responses", "openai-chat"] {
        let place = tempfile::tempdir_in(world.directory.path()).unwrap();
        let place = place.path();
        let model = scripted(SCRIPT).await;
        let asked = ask(place, &model, dialect, "", &["--budget-usd", "0.10"]).await;
        assert_eq!(asked.status, Some(3), "{dialect}: {}{}", asked.stdout, asked.stderr);
        // The model was asked for it, without tools, and the gateway let that pass.
        assert_eq!(asked.stdout.trim(), "I go on.", "{dialect}: {}", asked.stderr);
        assert!(asked.stderr.contains("$0.10"), "{dialect}: {}", asked.stderr);
        let requests = model.record().all();
        assert!(requests.len() > 3, "{dialect}: {}", requests.len());
        let last = requests.last().unwrap().body.clone().unwrap();
        assert!(last.contains("No tool can be called any more"), "{dialect}: {last}");
        // The most that it may say is what there was money for.
        let most = |body: &str| {
            let body: serde_json::Value = serde_json::from_str(body).unwrap();
            let fields = ["max_tokens", "max_output_tokens", "max_completion_tokens"];
            fields.iter().find_map(|field| body[field].as_u64()).unwrap()
        };
        let first = requests[0].body.clone().unwrap();
        assert_eq!(most(&first), 8192, "{dialect}");
        assert!((1024..8192).contains(&most(&last)), "{dialect}: {}", most(&last));
        let spent = cost(place).await;
        assert!((50_000_000..=100_000_000).contains(&spent), "{dialect}: {spent}");
    }
}

pub(crate) async fn the_gateway_refuses_what_a_run_may_not_spend(world: &World) {
    // An answer that does not say what it used is charged by the gateway as if it had used
    // all that it could; the loop takes it for free, and would go on.
    const SCRIPT: &str = r#"
        [[turn]]
        say = "I begin."
        call = [{ tool = "write_file", input = { path = "result.md", content = "So far: 41." } }]
        fault = { kind = "no-usage" }
        [[turn]]
        say = "It is 42."
    "#;
    for dialect in ["anthropic-messages", "openai-responses", "openai-chat"] {
        for (money, status, result, requests) in
            [(&["--budget-usd", "0.07"][..], 3, "So far: 41.", 1), (&[], 0, "It is 42.", 2)]
        {
            let place = tempfile::tempdir_in(world.directory.path()).unwrap();
            let place = place.path();
            let model = scripted(SCRIPT).await;
            let asked = ask(place, &model, dialect, "", money).await;
            assert_eq!(asked.status, Some(status), "{dialect}: {}", asked.stderr);
            assert_eq!(asked.stdout.trim(), result, "{dialect}: {}", asked.stderr);
            assert_eq!(model.record().all().len(), requests, "{dialect} {money:?}");
            let said = asked.stderr.contains("the budget of this token has no money left");
            assert_eq!(said, status == 3, "{dialect}: {}", asked.stderr);
        }
    }
}

pub(crate) async fn usage_has_what_runs_and_their_sandboxes_cost(world: &World) {
    const SCRIPT: &str = r#"
        [[turn]]
        say = "I look."
        call = [{ tool = "shell", input = { command = "echo again" } }]
        usage = { input = 100, output = 200 }
        [[turn]]
        call = [{ tool = "finish", input = { answer = "It is 42." } }]
        usage = { input = 300, output = 400 }
    "#;
    let place = tempfile::tempdir_in(world.directory.path()).unwrap();
    let place = place.path();
    let model = scripted(SCRIPT).await;
    let asked = ask(place, &model, "anthropic-messages", "", &[]).await;
    assert_eq!(asked.status, Some(0), "{}", asked.stderr);
    let used = belljar(place, &["usage", "--by", "run,account,model", "--json"]).await;
    let used: serde_json::Value = serde_json::from_str(&used.stdout).expect(&used.stderr);
    let of = |account: &str| {
        let items = used["items"].as_array().unwrap();
        items.iter().find(|item| item["account"] == account).cloned().unwrap_or_default()
    };
    let (models, sandboxes) = (of("models"), of("sandboxes"));
    assert_eq!(models["used"]["nano_dollars"], cost(place).await, "{used}");
    assert_eq!(used["total"]["nano_dollars"], models["used"]["nano_dollars"], "{used}");
    assert_eq!(models["used"]["charges"], 2, "{used}");
    let tokens = &models["used"]["tokens"];
    assert_eq!((&tokens["input"], &tokens["output"]), (&400.into(), &600.into()), "{used}");
    let run = crate::ask::newest(place).await;
    assert_eq!((&models["run"], &sandboxes["run"]), (&(&*run).into(), &(&*run).into()), "{used}");
    assert!(sandboxes["used"]["sandbox_ms"].as_u64().unwrap() > 0, "{used}");
    let table = belljar(place, &["usage", "--by", "model", "--run", &run]).await;
    assert!(table.stdout.contains(MODEL) && table.stdout.contains("total $"), "{}", table.stdout);
}

pub(crate) async fn a_lost_answer_costs_what_was_reserved(world: &World) {
    const SCRIPT: &str = r#"
        [[turn]]
        say = "It is 42."
    "#;
    let stage = world.stage(SCRIPT, turns(3)).await;
    // A worker that died after it had asked.
    let journal = &*stage.journal;
    let lease = journal.claim(&stage.address, "dead", Duration::from_secs(30)).await.unwrap();
    let requested = LlmRequested {
        turn: 1,
        attempt: 1,
        model: MODEL.into(),
        prompt: Digest::of(b"prompt"),
        reservation: Some(123_456_789),
        last: false,
    };
    journal.append(&lease, NewEvent::new(requested)).await.unwrap();
    journal.release(&lease).await.unwrap();
    let events = stage.finish().await;
    let lost = events.iter().find_map(|event| match &event.body {
        Body::LlmFailed(failed) => Some((failed.trouble, failed.nano_dollars)),
        _ => None,
    });
    assert_eq!(lost, Some((LlmTrouble::Lost, 123_456_789)));
    let spent = RunView::of(&events).spent.nano_dollars;
    assert!(spent > 123_456_789, "{spent}: the second answer costs, too");
    let reserved = events.iter().filter_map(|event| match &event.body {
        Body::LlmRequested(asked) => asked.reservation,
        _ => None,
    });
    assert!(reserved.into_iter().all(|nano| nano > 0));
}
