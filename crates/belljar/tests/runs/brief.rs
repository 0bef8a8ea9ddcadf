//! The brief of a run's model: parameters, instructions, skills, and recordings.

use std::path::Path;

use belljar_agent::SkillFolder;
use serde_json::{Value, json};

use crate::api::Api;
use crate::ask::{belljar, newest, scripted};
use crate::world::{MODEL, TEMPLATE, World};

/// Reads a skill, tries to change it, and computes.
const SKILLED: &str = r#"
    [[turn]]
    call = [{ tool = "read_file", input = { path = "/mnt/skills/sales/SKILL.md" } }]
    [[turn]]
    call = [{ tool = "shell", input = { command = "python3 /mnt/skills/sales/scripts/count.py; touch /mnt/skills/sales/x || echo read-only" } }]
    [[turn]]
    call = [{ tool = "finish", input = { answer = "It is {{result}}" } }]
"#;

const PLAIN: &str = r#"
    [[turn]]
    call = [{ tool = "execute_python", input = { code = "x = 6 * 7\nprint(x)" } }]
    [[turn]]
    call = [{ tool = "finish", input = { answer = "It is 42." } }]
"#;

fn write_skill(folder: &Path) {
    std::fs::create_dir_all(folder.join("scripts")).unwrap();
    let main = "---\nname: sales\ndescription: How deals are counted.\n---\nCount by day.\n";
    std::fs::write(folder.join("SKILL.md"), main).unwrap();
    std::fs::write(folder.join("scripts/count.py"), "print(40 + 2)\n").unwrap();
}

async fn worked(api: &Api<'_>, wish: &Value) -> (Value, Vec<Value>) {
    let made = api.send("POST", "/v1/runs", wish.to_string()).await.json(201);
    let id = made["id"].as_str().unwrap().to_owned();
    let events = api.events(&id, "").await.rest().await;
    (api.run(&id).await, events)
}

/// All that was said and done, without what is measured.
fn transcript(events: &[Value]) -> Vec<Value> {
    let told = |event: &Value| match event["kind"].as_str().unwrap() {
        "prompt_built" => Some(json!([event["turn"], event["sha256"], event["bytes"]])),
        "llm_responded" => Some(json!([event["blocks"], event["stop"], event["tokens"]])),
        "tool_finished" => Some(json!([event["call"], event["shown"], event["reason"]])),
        "injected_message" => Some(json!([event["text"]])),
        "finished" => Some(json!([event["outcome"], event["result"]])),
        _ => None,
    };
    events.iter().filter_map(told).collect()
}

/// A5, N5: what the request names reaches the model, and a recorded run is replayed without one.
pub(crate) async fn a_recorded_run_is_replayed_without_its_model(world: &World) {
    let model = world.scripts.add("recorded", SKILLED).await;
    let (api, stranger) = (Api::new(world), Api::stranger(world));
    let place = tempfile::tempdir_in(world.directory.path()).unwrap();
    write_skill(place.path());
    let archive = SkillFolder::read_folder(place.path()).unwrap().to_archive().unwrap();
    let skill = api.send("POST", "/v1/data", archive).await.json(201)["sha256"].clone();
    let wish = json!({
        "question": "How much is it?",
        "parameters": { "temperature": 0.2, "output_tokens": 500 },
        "instructions": "Amounts are in euros.",
        "skills": [{ "sha256": skill }],
    });
    let mut recorded = wish.clone();
    recorded["operation"] = "recorded".into();
    recorded["record"] = "sales-1".into();
    let (run, events) = worked(&api, &recorded).await;
    assert_eq!(run["end"]["outcome"], "answered", "{run}");
    assert_eq!(run["parameters"], wish["parameters"]);
    assert_eq!(run["instructions"], wish["instructions"]);
    assert_eq!(run["skills"][0]["name"], "sales");
    assert_eq!(run["recording"]["name"], "sales-1");
    assert_eq!(run["recording"]["sha256"].as_str().unwrap().len(), 64);
    let calls: Vec<_> = events.iter().filter(|event| event["kind"] == "tool_finished").collect();
    assert!(calls[0]["shown"].as_str().unwrap().contains("Count by day."), "{}", calls[0]);
    let shown: Vec<_> = calls[1]["shown"].as_str().unwrap().lines().collect();
    assert!(matches!(shown[..], ["42", _, "read-only"]), "in another order: {shown:?}");
    assert!(shown[1].contains("cannot touch"), "{shown:?}");

    let asked = model.record().all();
    let bodies: Vec<Value> = asked
        .iter()
        .map(|asked| serde_json::from_str(asked.body.as_deref().unwrap()).unwrap())
        .collect();
    for body in &bodies {
        assert_eq!((&body["temperature"], &body["max_tokens"]), (&json!(0.2), &json!(500)));
        assert_eq!(body["system"], bodies[0]["system"]);
    }
    let system = bodies[0]["system"].to_string();
    for part in ["/mnt/skills/sales/SKILL.md", "How deals are counted.", "Amounts are in euros."] {
        assert!(system.contains(part), "no {part} in {system}");
    }
    let count = asked.len();

    // Its owner can replay it, by name and by run, and no model is asked.
    let (id, sha256) = (run["id"].clone(), run["recording"]["sha256"].clone());
    for name in [json!("sales-1"), id.clone()] {
        let mut replay = wish.clone();
        replay["replay"] = name;
        replay.as_object_mut().unwrap().remove("parameters");
        let (again, told) = worked(&api, &replay).await;
        assert_eq!(transcript(&told), transcript(&events));
        assert_eq!((&again["replay"], &again["used"]["nano_dollars"]), (&id, &json!(0)));
        assert_eq!((&again["model"], &again["now"]), (&run["model"], &run["now"]));
        assert_eq!(again.get("recording"), None);

        // The control: another question, and other instructions.
        for (field, other) in [("question", "How little?"), ("instructions", "In dollars.")] {
            let mut other_wish = replay.clone();
            other_wish[field] = other.into();
            let (diverged, _) = worked(&api, &other_wish).await;
            let end = &diverged["end"];
            assert_eq!((&end["outcome"], &end["error"]), (&json!("failed"), &json!("replay")));
            assert!(end["message"].as_str().unwrap().contains("diverged"), "{end}");
        }
        let theirs = json!({ "question": "How much is it?", "replay": replay["replay"] });
        let refused = stranger.send("POST", "/v1/runs", theirs.to_string()).await;
        refused.refused(404, "recording_not_found");
    }
    assert_eq!(model.record().all().len(), count, "a replay asked the model");
    assert_eq!(api.run(id.as_str().unwrap()).await["recording"]["sha256"], sha256);
    let again = api.send("POST", "/v1/runs", recorded.to_string()).await;
    again.refused(409, "recording_exists");
}

pub(crate) async fn a_brief_that_no_run_can_have_is_refused(world: &World) {
    let _model = world.scripts.add("briefed", PLAIN).await;
    let api = Api::new(world);
    let text = api.send("POST", "/v1/data", "no archive").await.json(201)["sha256"].clone();
    let nothing = "0".repeat(64);
    for (field, value, status, code) in [
        ("parameters", json!({ "temperature": 3 }), 422, "invalid_body"),
        ("parameters", json!({ "effort": "endless" }), 422, "invalid_body"),
        ("parameters", json!({ "output_tokens": 0 }), 422, "invalid_body"),
        ("instructions", json!(" "), 422, "invalid"),
        ("instructions", json!("x".repeat(32_769)), 422, "invalid_body"),
        ("skills", json!([{ "sha256": nothing }]), 404, "data_not_found"),
        ("skills", json!([{ "sha256": text }]), 422, "skill_invalid"),
        ("record", json!("../x"), 422, "invalid"),
        ("replay", json!("never-made"), 404, "recording_not_found"),
        ("replay", json!("../x"), 404, "recording_not_found"),
    ] {
        let mut wish = json!({ "question": "How much is it?", "operation": "briefed" });
        if field == "replay" {
            wish.as_object_mut().unwrap().remove("operation");
        }
        wish[field] = value;
        api.send("POST", "/v1/runs", wish.to_string()).await.refused(status, code);
    }
    // Fixed rules follow no brief.
    let wish = json!({ "question": "How much?", "parameters": { "effort": "low" } });
    let refused = api.send("POST", "/v1/runs", wish.to_string()).await;
    refused.refused(422, "model_parameter_unsupported");
    // A run that was not recorded.
    let wish = json!({ "question": "How much is it?", "operation": "briefed" });
    let (run, _) = worked(&api, &wish).await;
    let replay = json!({ "question": "How much is it?", "replay": run["id"] });
    api.send("POST", "/v1/runs", replay.to_string()).await.refused(409, "run_not_recorded");
}

/// O4: a parameter that was not in force is an event.
pub(crate) async fn an_answer_that_the_budget_bounds_is_a_deviation(world: &World) {
    let _model = world.scripts.add("deviates", PLAIN).await;
    let api = Api::new(world);
    let wish = json!({
        "question": "How much is it?", "operation": "deviates",
        "parameters": { "output_tokens": 30_000 }, "budget": { "nano_dollars": 90_000_000 },
    });
    let (run, events) = worked(&api, &wish).await;
    assert_eq!(run["end"]["outcome"], "answered", "{run}");
    let deviated: Vec<_> =
        events.iter().filter(|event| event["kind"] == "parameter_deviated").collect();
    assert_eq!(deviated.len(), 1, "{deviated:?}");
    let deviated = deviated[0];
    assert_eq!(
        (&deviated["parameter"], &deviated["asked"], &deviated["cause"]),
        (&json!("output_tokens"), &json!("30000"), &json!("budget"))
    );
    let applied: u64 = deviated["applied"].as_str().unwrap().parse().unwrap();
    assert!((1024..30_000).contains(&applied), "{applied}");
}

/// A5, N5: the same of `belljar ask`.
pub(crate) async fn ask_records_and_replays(world: &World) {
    let place = tempfile::tempdir_in(world.directory.path()).unwrap();
    let place = place.path();
    write_skill(&place.join("skill"));
    std::fs::write(place.join("style.md"), "Amounts are in euros.\n").unwrap();
    let model = scripted(SKILLED).await;
    let url = format!("http://{}", model.address());
    let brief = ["--skill", "skill", "--instructions", "@style.md"];
    let ask = [&["ask", "How much is it?", "--template", TEMPLATE][..], &brief].concat();
    let by_model = ["--model", MODEL, "--model-url", &url];
    let too_hot = [&ask[..], &by_model, &["--temperature", "1.5"]].concat();
    let refused = belljar(place, &too_hot).await;
    assert_eq!(refused.status, Some(125), "{}", refused.stderr);
    assert!(refused.stderr.contains("`temperature` of at most 1"), "{}", refused.stderr);
    assert!(model.record().all().is_empty(), "nothing was begun");

    let more = ["--temperature", "0.2", "--record", "first"];
    let asked = belljar(place, &[&ask[..], &by_model, &more].concat()).await;
    assert_eq!(asked.status, Some(0), "{}{}", asked.stdout, asked.stderr);
    let events = exported(place).await;
    let body = model.record().all()[0].body.clone().unwrap();
    for part in [r#""temperature":0.2"#, "/mnt/skills/sales/SKILL.md", "Amounts are in euros."] {
        assert!(body.contains(part), "no {part} in {body}");
    }
    drop(model);

    let replayed = belljar(place, &[&ask[..], &["--replay", "first"]].concat()).await;
    assert_eq!(replayed.status, Some(0), "{}{}", replayed.stdout, replayed.stderr);
    assert_eq!(replayed.stdout, asked.stdout);
    assert_eq!(transcript(&exported(place).await), transcript(&events));

    // The control: another question.
    let other = ["ask", "How little?", "--template", TEMPLATE, "--replay", "first"];
    let other = belljar(place, &[&other[..], &brief].concat()).await;
    assert_eq!(other.status, Some(5), "{}{}", other.stdout, other.stderr);
    assert!(other.stderr.contains("the replay diverged"), "{}", other.stderr);
    let taken = ["--model", MODEL, "--model-url", &url, "--record", "first"];
    let taken = belljar(place, &[&ask[..], &taken].concat()).await;
    assert_eq!(taken.status, Some(125), "{}", taken.stderr);
    assert!(taken.stderr.contains("there is a recording `first` already"), "{}", taken.stderr);
}

async fn exported(place: &Path) -> Vec<Value> {
    let run = newest(place).await;
    let exported = belljar(place, &["runs", "export", &run]).await;
    exported.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}
