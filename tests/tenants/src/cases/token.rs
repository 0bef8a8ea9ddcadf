//! A sandbox's own token: what it opens without a key, and what it does not.

use anyhow::{Context as _, ensure};
use serde_json::json;

use crate::client::{Answer, Client};
use crate::platform::Platform;
use crate::routes::{self, Sample};
use crate::world::{Belongings, World};

const TOKEN: &str = "x-access-token";

/// API-08/token: on a server by itself.
pub(crate) async fn opens_its_sandbox_alone(world: &World) -> anyhow::Result<String> {
    opens(&world.a, &world.b, &[("the server", &world.nobody)]).await
}

/// API-08/token/platform: by control, and on the node itself.
pub(crate) async fn opens_its_sandbox_on_its_node(_: &World) -> anyhow::Result<String> {
    let platform = Platform::start().await?;
    let (a, _) = platform.key("a", &super::authorization::EVERYTHING, None).await?;
    let (b, _) = platform.key("b", &super::authorization::EVERYTHING, None).await?;
    let (a, b) = (platform.client(Some(&a)), platform.client(Some(&b)));
    let node = Client { address: platform.node, key: None };
    let places = [("control", &platform.client(None)), ("the node", &node)];
    let seen = Box::pin(opens(&a, &b, &places)).await;
    platform.stop().await?;
    seen
}

async fn opens(a: &Client, b: &Client, places: &[(&str, &Client)]) -> anyhow::Result<String> {
    // One that the token is of, one of the same tenant, one of another.
    let (own, next, other) = (a.belongings().await?, a.belongings().await?, b.belongings().await?);
    let token = token(a, &own).await?;
    let (mut opened, mut refused) = (0, 0);
    for (place, nobody) in places {
        for (operation, sample) in routes::own() {
            let route = operation.route();
            if !sample.keyed {
                continue;
            }
            for (whose, of) in
                [("its own", &own), ("its tenant's", &next), ("a stranger's", &other)]
            {
                let what = format!("{} of {whose} at {place}", sample.name);
                if route.is_inside() && whose == "its own" {
                    continue;
                }
                let answer = ask(nobody, &sample, of, &[(TOKEN, &token)]).await?;
                ensure!(answer.status == 401, "{what}: {} {}", answer.status, answer.text());
                ensure!(answer.code()? == "unauthenticated", "{what}: {}", answer.text());
                refused += 1;
            }
            if !route.is_inside() {
                continue;
            }
            // Whoever shows a key is who the key says, whatever else he shows.
            let wrong = ("x-api-key", "e2b_0000000000000000000000000000000000000000");
            let bearer = ("authorization", "Bearer e2b_00");
            for key in [wrong, bearer] {
                let answer = ask(nobody, &sample, &own, &[(TOKEN, &token), key]).await?;
                ensure!(
                    answer.status == 401,
                    "{} with a wrong key: {}",
                    sample.name,
                    answer.status
                );
            }
            let cut = &token[..token.len() - 1];
            for almost in [cut, "", &own.sandbox, "e2b_"] {
                let answer = ask(nobody, &sample, &own, &[(TOKEN, almost)]).await?;
                ensure!(answer.status == 401, "{} with {almost:?}: {}", sample.name, answer.status);
            }
            refused += 6;
            // The control: with it, what is inside is there.
            let fresh = a.belongings().await?;
            let proof = self::token(a, &fresh).await?;
            let answer = ask(nobody, &sample, &fresh, &[(TOKEN, &proof)]).await?;
            ensure!(answer.is_success(), "{} at {place}: {}", sample.name, answer.text());
            a.clear(&fresh).await?;
            opened += 1;
            // And with its end the token's.
            let answer = ask(nobody, &sample, &fresh, &[(TOKEN, &proof)]).await?;
            ensure!(answer.status == 401, "{} after its end: {}", sample.name, answer.status);
        }
    }
    for (owner, of) in [(a, &own), (a, &next), (b, &other)] {
        let secret = format!("/v1/sandboxes/{}/files/content?path=/tmp/secret", of.sandbox);
        ensure!(owner.get(&secret).await?.expect(200)?.text() == "the owner's");
    }
    // A copy has one of its own.
    let path = format!("/v1/sandboxes/{}/fork", next.sandbox);
    a.send("DELETE", &format!("/v1/sandboxes/{}/calls/{}", next.sandbox, next.call), "").await?;
    let forked = a.json("POST", &path, &json!({})).await?.expect(201)?.value()?;
    let copied = forked["items"][0]["access_token"].as_str().context("a copy without a token")?;
    ensure!(copied != self::token(a, &next).await?, "a copy with its original's token");
    ensure!(opened > 15 * places.len(), "only {opened} requests were let in");
    Ok(format!("{opened} requests inside, {refused} refused"))
}

async fn token(owner: &Client, of: &Belongings) -> anyhow::Result<String> {
    let shown = owner.get(&format!("/v1/sandboxes/{}", of.sandbox)).await?.expect(200)?.value()?;
    Ok(shown["access_token"].as_str().context("no token")?.to_owned())
}

async fn ask(
    client: &Client,
    sample: &Sample,
    of: &Belongings,
    headers: &[(&str, &str)],
) -> anyhow::Result<Answer> {
    client.send_with(&sample.method, &sample.at(of), headers, sample.body.clone()).await
}
