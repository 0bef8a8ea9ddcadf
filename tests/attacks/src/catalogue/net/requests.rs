//! Requests: one in, one out, each judged by itself.

use belljar_domain::network::{Policy, Reach, Reason, Rule, Throttle};

use super::{directly, served, works};
use crate::attack::Seen;
use crate::harness::findings::Findings;
use crate::harness::say::{Script, connect, get};
use crate::harness::stage::Stage;
use crate::harness::world::{Wish, World, allow, mint};

/// Redirects to the host's own service, through the proxy and by an operation.
pub(super) async fn redirects(stage: Stage, control: bool) -> anyhow::Result<Seen> {
    let world = World::with(Wish { opens_service: control, ..Wish::default() }).await?;
    let port = world.service.address().port();
    let inner = format!("127.0.0.1:{port}");
    let mut policy = allow(&["allowed.test"])?;
    if control && let Reach::Allow(rules) = &mut policy.reach {
        rules.push(Rule { ports: vec![port], ..Rule::of("127.0.0.1".parse()?) });
    }
    let sandbox = served(&stage, &world, policy).await?;
    let token = mint(&sandbox, &["plain"]).await?.token;
    let path = |to: &str, status: u16| format!("/redirect?to=http://{to}/hello&status={status}");
    let mut scripts = Vec::new();
    for status in [301, 302, 303, 307, 308] {
        for to in [&*inner, "denied.test"] {
            let name = format!("{status} to {to}");
            let first = Script::gateway(&name).ask(get("allowed.test", &path(to, status)));
            // A client follows by itself.
            scripts.push(first.ask(get(to, "/hello")));
        }
    }
    let (call, said) = stage.say(&sandbox, &scripts).await?;
    if control {
        let reached = world.service.record().total() > 0 && said[0].has("hello");
        return Ok(works(reached, "a client that follows to an opened place is served", &said));
    }
    let mut findings = Findings::default();
    for said in &said {
        let statuses = said.statuses();
        let passed_on = matches!(statuses[..], [301 | 302 | 303 | 307 | 308, 403]);
        findings.expect(passed_on, "passed on as it is, and judged again", said.brief());
    }
    let rows = world.denied(&sandbox, call, scripts.len(), Reason::NotAllowed).await;
    findings.expect(rows.is_ok(), "each is written down", rows.err().unwrap_or_default());
    // With a credential nothing is even passed on.
    let ask = format!(
        "GET /operations/plain{} HTTP/1.1\r\nhost: 127.0.0.1\r\nauthorization: Bearer {token}\r\n\r\n",
        path(&inner, 302)
    );
    let (_, said) = stage.say(&sandbox, &[Script::gateway("operation").ask(ask)]).await?;
    let refused = said[0].status() == 502 && !said[0].has("location");
    findings.expect(refused, "of an operation: 502", said[0].brief());
    let total = world.service.record().total();
    findings.expect(total == 0, "nobody followed", total);
    findings.expect(!world.names.was_asked("denied.test"), "nothing was looked up", "it was");
    Ok(findings.seen())
}

/// Another destination on a connection whose first request was allowed.
pub(super) async fn changes(stage: Stage, control: bool) -> anyhow::Result<Seen> {
    let world = World::start().await?;
    let mut policy = allow(&["allowed.test"])?;
    if let Reach::Allow(rules) = &mut policy.reach {
        // So that TLS to it is read.
        rules[0].methods = vec!["GET".to_owned()];
        if control {
            rules.push(Rule::of("denied.test".parse()?));
        }
    }
    let sandbox = served(&stage, &world, policy).await?;
    let first = |name: &str| Script::gateway(name).ask(get("allowed.test", "/hello"));
    let inside = |host: &str| format!("GET /hello HTTP/1.1\r\nhost: {host}\r\n\r\n");
    let other = "GET http://allowed.test/hello HTTP/1.1\r\nhost: denied.test\r\n\r\n";
    let two =
        "GET http://allowed.test/hello HTTP/1.1\r\nhost: allowed.test\r\nhost: denied.test\r\n\r\n";
    let within =
        |name| Script::gateway(name).tunnel("allowed.test:443").tls(Some("allowed.test"), 1);
    let scripts = [
        first("second").ask(get("denied.test", "/hello")),
        first("tunnel").ask(connect("denied.test:443")),
        first("pipelined").send(get("denied.test", "/hello")).ask(get("denied.test", "/hello")),
        first("other host").ask(other),
        first("two hosts").ask(two),
        within("inside").ask(inside("allowed.test")).ask(inside("denied.test")),
        within("absolute").ask(inside("allowed.test")).ask(get("denied.test", "/hello")),
        within("tunnel inside").ask(inside("allowed.test")).ask(connect("denied.test:443")),
    ];
    let (call, said) = stage.say(&sandbox, &scripts).await?;
    if control {
        let reached = said[0].statuses() == [200, 200] && said[1].statuses() == [200, 200];
        return Ok(works(reached, "where both are allowed, both are reached", &said));
    }
    let mut findings = Findings::default();
    for said in &said {
        let statuses = said.statuses();
        let ok = statuses.iter().filter(|status| **status == 200).count();
        // The tunnel itself is one.
        let granted = if said.got.starts_with("HTTP/1.1 200 OK\r\n\r\n") { 2 } else { 1 };
        let refused = matches!(said.status(), 400 | 403) && ok == granted;
        findings.expect(refused, "each request is judged by itself", said.brief());
    }
    let rows = world.denied(&sandbox, call, 2, Reason::NotAllowed).await;
    findings.expect(rows.is_ok(), "written down", rows.err().unwrap_or_default());
    let rows = world.denied(&sandbox, call, 2, Reason::NameMismatch).await;
    findings.expect(rows.is_ok(), "and inside TLS", rows.err().unwrap_or_default());
    findings.expect(!world.names.was_asked("denied.test"), "nothing was looked up", "it was");
    let served = world.web.record().total() + world.secure.record().total();
    findings.expect(served == 8, "one request out for each that was allowed", served);
    Ok(findings.seen())
}

const SMUGGLED: &str = "GET http://allowed.test/smuggled HTTP/1.1\r\nhost: allowed.test\r\n\r\n";

/// Heads and bodies whose end is a matter of opinion.
pub(super) async fn smuggling(stage: Stage, control: bool) -> anyhow::Result<Seen> {
    let world = World::start().await?;
    let post = "POST http://allowed.test/hello HTTP/1.1\r\nhost: allowed.test\r\n";
    let empty = "0\r\n\r\n";
    let bytes: Vec<(&str, String)> = vec![
        ("CL.TE", format!("{post}content-length: 5\r\ntransfer-encoding: chunked\r\n\r\n{empty}")),
        ("TE.CL", format!("{post}transfer-encoding: chunked\r\ncontent-length: 4\r\n\r\n{empty}")),
        (
            "TE twice",
            format!(
                "{post}transfer-encoding: chunked\r\ntransfer-encoding: chunked\r\n\r\n{empty}"
            ),
        ),
        ("TE list", format!("{post}transfer-encoding: identity, chunked\r\n\r\n{empty}")),
        ("TE tab", format!("{post}transfer-encoding: \x0bchunked\r\n\r\n{empty}")),
        ("TE case", format!("{post}transfer-encoding: xchunked\r\n\r\n{empty}")),
        ("CL twice", format!("{post}content-length: 0\r\ncontent-length: 0\r\n\r\n")),
        ("CL list", format!("{post}content-length: 0, 0\r\n\r\n")),
        ("CL sign", format!("{post}content-length: +0\r\n\r\n")),
        ("CL hex", format!("{post}content-length: 0x0\r\n\r\n")),
        ("CL zeros", format!("{post}content-length: 00\r\n\r\n")),
        ("folded", format!("{post}x: a\r\n content-length: 10\r\n\r\n")),
        ("blank before colon", format!("{post}content-length : 0\r\n\r\n")),
        ("bare LF", format!("{post}x: a\ncontent-length: 0\r\n\r\n")),
        ("bare LF end", post.replace("\r\n", "\n") + "\n"),
        ("bare CR", format!("{post}x: a\rb\r\n\r\n")),
        ("NUL", format!("{post}x: a\0b\r\n\r\n")),
        ("no name", format!("{post}: a\r\n\r\n")),
        ("no colon", format!("{post}abc\r\n\r\n")),
        ("upgrade", format!("{post}connection: upgrade\r\nupgrade: websocket\r\n\r\n")),
        (
            "HTTP/1.0 body",
            format!(
                "{}content-length: 0\r\ntransfer-encoding: chunked\r\n\r\n{empty}",
                post.replace("1.1", "1.0")
            ),
        ),
        ("HTTP/0.9", "GET http://allowed.test/hello\r\n\r\n".to_owned()),
        ("HTTP/2", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_owned()),
        ("bad chunk", format!("{post}transfer-encoding: chunked\r\n\r\nzz\r\n{empty}")),
        ("chunk sign", format!("{post}transfer-encoding: chunked\r\n\r\n+1\r\nx\r\n{empty}")),
        ("chunk LF", format!("{post}transfer-encoding: chunked\r\n\r\n1\nx\n0\n\n")),
        (
            "chunk overflow",
            format!("{post}transfer-encoding: chunked\r\n\r\nfffffffffffffffff\r\nx\r\n{empty}"),
        ),
        ("chunk too long", format!("{post}transfer-encoding: chunked\r\n\r\n1\r\nxx\r\n{empty}")),
    ];
    if control {
        let script = |(name, bytes): &(&str, String)| {
            Script::to(*name, world.at(80)).send(bytes).send(SMUGGLED).rest(0.3)
        };
        let scripts: Vec<Script> = bytes.iter().take(4).map(script).collect();
        let said = directly(&stage, &scripts).await?;
        let record = world.web.record().all();
        let smuggled = record.iter().filter(|asked| asked.target.ends_with("/smuggled")).count();
        return Ok(works(smuggled >= 3, "a lenient server takes two requests from one", &said));
    }
    let sandbox = served(&stage, &world, allow(&["allowed.test"])?).await?;
    let script = |(name, bytes): &(&str, String)| {
        Script::gateway(*name).send(bytes).send(SMUGGLED).rest(3.0)
    };
    let scripts: Vec<Script> = bytes.iter().map(script).collect();
    let (call, said) = stage.say_at_once(&sandbox, &scripts).await?;
    let mut findings = Findings::default();
    let mut bodies = 0;
    for said in &said {
        // A body that breaks off later: the head had gone out already.
        let in_body = said.name.contains("chunk");
        bodies += usize::from(in_body);
        let refused =
            said.closed && said.statuses().len() <= 1 && (said.status() == 400 || in_body);
        findings.expect(refused && !said.has("hello"), "400 and the end", said.brief());
    }
    let record = world.web.record().all();
    let smuggled: Vec<_> =
        record.iter().filter(|asked| asked.target.contains("smuggled")).collect();
    findings.expect(smuggled.is_empty(), "nothing smuggled went out", format!("{smuggled:?}"));
    let whole = record.len();
    findings.expect(whole == 0, "and nothing in doubt did", format!("{record:?}"));
    let rows = world.denied(&sandbox, call, said.len() - bodies, Reason::Malformed).await;
    findings.expect(rows.is_ok(), "each is written down", rows.err().unwrap_or_default());
    // Answered before its body was read: what follows is no request.
    let early = format!(
        "POST http://denied.test/ HTTP/1.1\r\nhost: denied.test\r\ncontent-length: {}\r\n\r\n{SMUGGLED}",
        SMUGGLED.len() + 5
    );
    let script = Script::gateway("early").send(early).rest(3.0);
    let (_, said) = stage.say(&sandbox, &[script]).await?;
    let alone = said[0].statuses() == [403] && said[0].closed;
    findings.expect(alone, "an early answer ends the connection", said[0].brief());
    findings.expect(world.web.record().total() == 0, "one request in, one out", "there was more");
    Ok(findings.seen())
}

/// Who asks is the listener, whatever is said.
pub(super) async fn forged(stage: Stage, control: bool) -> anyhow::Result<Seen> {
    let world = World::start().await?;
    let forged = [
        "x-belljar-engine: sb-another",
        "x-belljar-tenant: another",
        "forwarded: for=10.0.0.1;by=belljar",
        "x-forwarded-for: 10.0.0.1",
        "x-forwarded-host: denied.test",
        "x-real-ip: 10.0.0.1",
        "via: 1.1 another",
        "proxy-authorization: Basic YTpi",
        "proxy-connection: keep-alive",
        "keep-alive: timeout=5",
        "te: trailers",
        "connection: x-hop",
        "x-hop: hop",
    ];
    let head = format!("host: allowed.test\r\nx-mine: kept\r\n{}\r\n\r\n", forged.join("\r\n"));
    let request = format!("GET http://allowed.test/echo HTTP/1.1\r\n{head}");
    if control {
        let said = directly(&stage, &[Script::to("forged", world.at(80)).ask(&request)]).await?;
        let all = forged.iter().all(|line| said[0].has(line));
        return Ok(works(all, "a server that is reached directly believes them", &said));
    }
    let sandbox = served(&stage, &world, allow(&["allowed.test"])?).await?;
    let twice = |line: &str| {
        let bytes = format!(
            "GET http://allowed.test/echo HTTP/1.1\r\nhost: allowed.test\r\n{line}\r\n{line}\r\n\r\n"
        );
        Script::gateway(line).ask(bytes)
    };
    let scripts = [
        Script::gateway("forged").ask(&request),
        twice("host: allowed.test"),
        twice("authorization: Bearer x"),
        twice("content-length: 0"),
    ];
    let (call, said) = stage.say(&sandbox, &scripts).await?;
    let mut findings = Findings::default();
    let echo = &said[0];
    findings.expect(echo.has("x-mine: kept"), "what is the client's own arrives", echo.brief());
    for line in forged {
        let name = line.split(':').next().unwrap_or(line);
        let body = echo.got.split_once("\r\n\r\n").map_or("", |(_, body)| body).to_lowercase();
        let there = body.contains(&format!("\n{name}:"));
        findings.expect(!there, "what is said of identity and hops is dropped", name);
    }
    for said in &said[1..] {
        findings.expect(
            said.statuses() == [400],
            "what may be there once is refused twice",
            said.brief(),
        );
    }
    let rows = world.denied(&sandbox, call, 3, Reason::Malformed).await;
    findings.expect(rows.is_ok(), "written down", rows.err().unwrap_or_default());
    let rows = world.rows(sandbox.id());
    let right = rows.iter().all(|row| row.subject.tenant == "tenant");
    findings.expect(right && rows.len() >= 4, "under the listener's own sandbox", rows.len());
    Ok(findings.seen())
}

/// Data left at an allowed host: by method, by path, by amount, by one's own key.
pub(super) async fn drop_box(stage: Stage, control: bool) -> anyhow::Result<Seen> {
    let key = "sk-of-the-attacker";
    let wish = Wish { watch: vec![key.to_owned()], ..Wish::default() };
    let world = World::with(wish).await?;
    let rule = Rule {
        methods: vec!["GET".to_owned()],
        paths: vec!["/hello".to_owned()],
        ..Rule::of("allowed.test".parse()?)
    };
    let throttle = Throttle { bytes_out: 40_000, ..Throttle::default() };
    let mut policy = Policy { reach: Reach::Allow(vec![rule]), throttle, ..Policy::default() };
    if control {
        policy = allow(&["allowed.test"])?;
    }
    let sandbox = served(&stage, &world, policy).await?;
    let body = |method: &str, target: &str| {
        format!(
            "{method} {target} HTTP/1.1\r\nhost: allowed.test\r\nx-api-key: {key}\r\n\
             content-length: 4\r\n\r\ndata"
        )
    };
    let within =
        |name| Script::gateway(name).tunnel("allowed.test:443").tls(Some("allowed.test"), 1);
    let plain = |path: &str| format!("http://allowed.test{path}");
    let scripts = [
        Script::gateway("POST").ask(body("POST", &plain("/hello"))),
        Script::gateway("PUT").ask(body("PUT", &plain("/echo"))),
        within("POST in TLS").ask(body("POST", "/hello")),
        within("PUT in TLS").ask(body("PUT", "/echo")),
        within("another path").ask("GET /echo?data HTTP/1.1\r\nhost: allowed.test\r\n\r\n"),
        Script::gateway("by dots").ask(get("allowed.test", "/hello/../echo?data")),
        Script::gateway("by escapes").ask(get("allowed.test", "/hello/%2e%2e/echo?data")),
        Script::gateway("a longer word").ask(get("allowed.test", "/hellos")),
    ];
    let (call, said) = stage.say(&sandbox, &scripts).await?;
    let came = || {
        let all = [world.web.record().all(), world.secure.record().all()].concat();
        all.iter().filter(|asked| asked.watched.iter().any(|text| text == key)).count()
    };
    if control {
        return Ok(works(came() >= 4, "a host that is allowed as a whole takes everything", &said));
    }
    let mut findings = Findings::default();
    for said in &said {
        let refused = said.status() == 403 && !said.has("hello");
        findings.expect(refused, "only the methods and paths of rules", said.brief());
    }
    let rows = world.denied(&sandbox, call, 4, Reason::Method).await;
    findings.expect(rows.is_ok(), "written down", rows.err().unwrap_or_default());
    let rows = world.denied(&sandbox, call, 4, Reason::Path).await;
    findings.expect(rows.is_ok(), "written down", rows.err().unwrap_or_default());
    // A key of one's own where an operation has one already.
    let token = mint(&sandbox, &["plain"]).await?.token;
    let ask = |line: &str| {
        let head =
            format!("GET /operations/plain/echo HTTP/1.1\r\nhost: 127.0.0.1\r\n{line}\r\n\r\n");
        Script::gateway("own key").ask(head)
    };
    let scripts = [
        ask(&format!("authorization: Bearer {token}\r\nx-api-key: {key}")),
        ask(&format!("x-api-key: {key}")),
        ask(&format!(
            "x-api-key: {token}\r\ncookie: {key}\r\nx-goog-api-key: {key}\r\napi-key: {key}"
        )),
    ];
    let (_, said) = stage.say(&sandbox, &scripts).await?;
    for said in &said[..2] {
        findings.expect(said.status() == 401, "a foreign key opens nothing", said.brief());
    }
    findings.expect(came() == 0, "and never leaves", came());
    // And what may go out has an end.
    let long = format!("/hello?{}", "d".repeat(8000));
    let many =
        (0..8).fold(Script::gateway("much"), |script, _| script.ask(get("allowed.test", &long)));
    let (call, said) = stage.say(&sandbox, &[many]).await?;
    let spent = said[0].has("bytes_spent") || said[0].closed;
    findings.expect(spent, "a budget of bytes ends it", said[0].brief());
    let rows = world.denied(&sandbox, call, 1, Reason::BytesSpent).await;
    findings.expect(rows.is_ok(), "written down", rows.err().unwrap_or_default());
    Ok(findings.seen())
}
