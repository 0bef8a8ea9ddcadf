//! The network and the operations of a run of `belljar ask`.

use std::path::Path;

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use crate::ask::{belljar, newest, scripted};
use crate::world::{MODEL, TEMPLATE, World};

/// Calls the operation that the run has, one that it has not, and a host.
const SCRIPT: &str = r#"
    [[turn]]
    call = [{ tool = "execute_python", input = { code = '''
import os, urllib.error, urllib.request
def call(url, headers):
    try:
        return urllib.request.urlopen(urllib.request.Request(url, headers=headers)).read().decode()
    except urllib.error.HTTPError as error:
        return f"{error.code} {error.headers['x-belljar-reason']}"
def operation(name):
    token = open(os.environ["BELLJAR_TOKEN_FILE"]).read()
    url = f"{os.environ['BELLJAR_GATEWAY']}/operations/{name}/"
    return call(url, {"Authorization": f"Bearer {token}"})
print(operation("echo"))
''' } }]
    [[turn]]
    call = [{ tool = "execute_python", input = { code = "print(operation('admin'), call('http://b.example/', {}))" } }]
    [[turn]]
    call = [{ tool = "finish", input = { answer = "Done." } }]
"#;

/// Answers every request with a word. Ends with its case.
async fn upstream() -> std::net::SocketAddr {
    served_upstream().await.0
}

async fn served_upstream() -> (std::net::SocketAddr, JoinHandle<()>) {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    let serving = tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut head = [0; 4096];
            let _ = stream.read(&mut head).await;
            let answer = "HTTP/1.1 200 OK\r\ncontent-length: 4\r\nconnection: close\r\n\r\npong";
            let _ = stream.write_all(answer.as_bytes()).await;
        }
    });
    (address, serving)
}

fn configure(place: &Path, model: std::net::SocketAddr, upstream: std::net::SocketAddr) {
    let plain = |name: &str| {
        format!(
            "[operations.{name}]\nkind = \"http\"\nplaintext = true\n\
             upstream = \"http://{upstream}\"\nmethods = [\"GET\"]\npaths = [\"/\"]\n"
        )
    };
    let model = format!(
        "[operations.llm]\nkind = \"model\"\nplaintext = true\nupstream = \"http://{model}\"\n\
         dialects = [\"anthropic-messages\"]\nmodels = [\"{MODEL}\"]\n"
    );
    std::fs::write(place.join("gateway.toml"), model + &plain("echo") + &plain("admin")).unwrap();
}

/// G1, G3: the token of a run's code is for the named operations; a refusal is told and recorded.
pub(crate) async fn ask_calls_the_operations_of_its_options(world: &World) {
    let place = tempfile::tempdir_in(world.directory.path()).unwrap();
    let place = place.path();
    let model = scripted(SCRIPT).await;
    configure(place, model.address(), upstream().await);
    let ask = ["ask", "Who answers?", "--template", TEMPLATE, "--gateway", "gateway.toml"];
    let unknown = belljar(place, &[&ask[..], &["--operations", "nosuch"]].concat()).await;
    assert_eq!(unknown.status, Some(125), "{}", unknown.stderr);
    for words in ["there is no operation `nosuch`", "choose with --operations:", "echo"] {
        assert!(unknown.stderr.contains(words), "no {words} in {}", unknown.stderr);
    }
    assert!(model.record().all().is_empty(), "nothing was begun");

    let options = ["--operations", "echo", "--allow", "a.example"];
    let asked = belljar(place, &[&ask[..], &options].concat()).await;
    assert_eq!(asked.status, Some(0), "{}{}", asked.stdout, asked.stderr);
    for words in ["refused: admin (scope)", "b.example (not_allowed)"] {
        assert!(asked.stderr.contains(words), "no {words} in {}", asked.stderr);
    }
    let run = newest(place).await;
    let exported = belljar(place, &["runs", "export", &run]).await;
    let events: Vec<Value> =
        exported.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(events[0]["wish"]["network"]["operations"], json!(["echo"]));
    assert_eq!(events[0]["prompt"]["name"], "react-network");
    let shown: Vec<&str> = events
        .iter()
        .filter(|event| event["kind"] == "tool_finished")
        .map(|event| event["shown"].as_str().unwrap())
        .collect();
    assert_eq!(shown[0].trim(), "pong");
    assert!(shown[1].starts_with("403 scope 403 not_allowed\n"), "{shown:?}");
    for line in
        ["operation `admin` (scope). This run may call only: echo.", "host b.example (not_allowed)"]
    {
        assert!(shown[1].contains(line), "no {line} in {shown:?}");
    }
    // The prompt names what there is, and no credential or token.
    let bodies = model.record().all();
    let first = bodies[0].body.clone().unwrap();
    for words in ["`echo`", "a.example", "BELLJAR_TOKEN_FILE"] {
        assert!(first.contains(words), "no {words} in {first}");
    }
    assert!(!first.contains("The sandbox has no network"), "{first}");

    // The control: a run that names none has the prompt of before, and reaches nothing.
    let asked = belljar(place, &ask).await;
    assert_eq!(asked.status, Some(0), "{}{}", asked.stdout, asked.stderr);
    let run = newest(place).await;
    let exported = belljar(place, &["runs", "export", &run]).await;
    assert!(exported.stdout.contains("\"name\":\"react\""), "{}", exported.stdout);
    assert!(!exported.stdout.contains("pong"), "{}", exported.stdout);
}

/// N5: the operations of a recorded run are on its recording. The replay reaches nothing, and ends
/// as diverged where the code asks for something else.
pub(crate) async fn ask_replays_what_operations_answered(world: &World) {
    let place = tempfile::tempdir_in(world.directory.path()).unwrap();
    let place = place.path();
    let model = scripted(SCRIPT).await;
    let (address, serving) = served_upstream().await;
    configure(place, model.address(), address);
    let ask = ["ask", "Who answers?", "--template", TEMPLATE, "--gateway", "gateway.toml"];
    let reaches = ["--operations", "echo", "--allow", "a.example"];
    let recorded = [&ask[..], &reaches, &["--record", "first"]].concat();
    let recorded = belljar(place, &recorded).await;
    assert_eq!(recorded.status, Some(0), "{}{}", recorded.stdout, recorded.stderr);
    let told = results(place).await;
    assert_eq!(told[0].trim(), "pong");
    serving.abort();
    serving.await.unwrap_err();
    drop(model);
    // The control: nothing answers any more.
    tokio::net::TcpStream::connect(address).await.unwrap_err();

    let replay = [&ask[..], &reaches, &["--replay", "first"]].concat();
    let replayed = belljar(place, &replay).await;
    assert_eq!(replayed.status, Some(0), "{}{}", replayed.stdout, replayed.stderr);
    assert_eq!(results(place).await, told);

    // The control: with another operation, the prompt is another one.
    let other = [&ask[..], &["--operations", "echo,admin", "--allow", "a.example"]].concat();
    let other = belljar(place, &[&other[..], &["--replay", "first"]].concat()).await;
    assert_eq!(other.status, Some(5), "{}{}", other.stdout, other.stderr);
    assert!(other.stderr.contains("the replay diverged"), "{}", other.stderr);
}

/// Code whose request is another one each time.
const OTHER_REQUEST: &str = r#"
    [[turn]]
    call = [{ tool = "execute_python", input = { code = '''
import os, time, urllib.error, urllib.request
token = open(os.environ["BELLJAR_TOKEN_FILE"]).read()
url = f"{os.environ['BELLJAR_GATEWAY']}/operations/echo/?at={time.time_ns()}"
request = urllib.request.Request(url, headers={"Authorization": f"Bearer {token}"})
try:
    urllib.request.urlopen(request).read()
except urllib.error.HTTPError:
    pass
''' } }]
    [[turn]]
    call = [{ tool = "finish", input = { answer = "Done." } }]
"#;

/// N5: a request that is not on the recording is refused with its reason, and ends the replay.
pub(crate) async fn a_replay_ends_at_a_request_that_was_not_recorded(world: &World) {
    let place = tempfile::tempdir_in(world.directory.path()).unwrap();
    let place = place.path();
    let model = scripted(OTHER_REQUEST).await;
    configure(place, model.address(), upstream().await);
    let ask = ["ask", "Who answers?", "--template", TEMPLATE, "--gateway", "gateway.toml"];
    let ask = [&ask[..], &["--operations", "echo"]].concat();
    let recorded = belljar(place, &[&ask[..], &["--record", "first"]].concat()).await;
    assert_eq!(recorded.status, Some(0), "{}{}", recorded.stdout, recorded.stderr);
    let replayed = belljar(place, &[&ask[..], &["--replay", "first"]].concat()).await;
    assert_eq!(replayed.status, Some(5), "{}{}", replayed.stdout, replayed.stderr);
    for words in ["not_recorded", "the code made a request through the gateway that is not on"] {
        assert!(replayed.stderr.contains(words), "no {words} in {}", replayed.stderr);
    }
}

/// The model's view of each call of the newest run.
async fn results(place: &Path) -> Vec<String> {
    let run = newest(place).await;
    let exported = belljar(place, &["runs", "export", &run]).await;
    let events = exported.stdout.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let finished = events.filter(|event| event["kind"] == "tool_finished");
    finished.map(|event| event["shown"].as_str().unwrap().to_owned()).collect()
}
