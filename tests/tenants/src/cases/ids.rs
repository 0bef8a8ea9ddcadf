//! Ids that nobody guesses.

use anyhow::{bail, ensure};
use serde_json::json;

use crate::world::World;

/// API-02: 128 random bits, and knowing one is not enough.
pub(crate) async fn cannot_be_guessed(world: &World) -> anyhow::Result<String> {
    let mut ids = Vec::new();
    for _ in 0..24 {
        let id = world.a.sandbox(&json!({})).await?;
        world.b.get(&format!("/v1/sandboxes/{id}")).await?.expect(404)?;
        world.a.get(&format!("/v1/sandboxes/{id}")).await?.expect(200)?;
        // Its neighbours in any order of ids do not exist, either.
        let last = if id.ends_with('a') { 'b' } else { 'a' };
        let near = format!("{}{last}", &id[..25]);
        world.a.get(&format!("/v1/sandboxes/{near}")).await?.expect(404)?;
        ids.push(id);
    }
    looks_random(&ids)?;
    // The control: ids that are counted up do not pass.
    let counted: Vec<_> = (0..24).map(|n| format!("aaaaaaaaaaaaaaaaaaaaaaaa{n:02}")).collect();
    ensure!(looks_random(&counted).is_err(), "the check is blind");
    Ok(format!("{} ids of 128 bits, no two alike", ids.len()))
}

/// Whether every place of the ids varies as random places do.
fn looks_random(ids: &[String]) -> anyhow::Result<()> {
    for (index, id) in ids.iter().enumerate() {
        ensure!(id.len() == 26, "{id} has not 26 characters");
        ensure!(id.bytes().all(|b| matches!(b, b'a'..=b'z' | b'2'..=b'7')), "{id}");
        ensure!(!ids[..index].contains(id), "{id} twice");
    }
    // The first place holds 3 bits only; the others 5. Of 24 random ones, fewer
    // than 4 different characters come up once in 10^18 times.
    for place in 1..26 {
        let mut seen: Vec<u8> = ids.iter().map(|id| id.as_bytes()[place]).collect();
        seen.sort_unstable();
        seen.dedup();
        if seen.len() < 4 {
            bail!("place {place} has only {} characters", seen.len());
        }
    }
    Ok(())
}
