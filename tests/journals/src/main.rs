//! Another process: `belljar-journals PLACE TENANT RUN work WORLD TURNS [before|after N]`
//! or `… write`.

use anyhow::Context as _;
use belljar_journal::Address;
use belljar_journals::agent::{self, Agent, Death, World};
use belljar_journals::place;

#[tokio::main(flavor = "current_thread")]
async fn main() -> anyhow::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [name, tenant, run, what, rest @ ..] = arguments.as_slice() else {
        anyhow::bail!("PLACE TENANT RUN work|write …");
    };
    let journal = place::open(name).await?;
    let run = Address { tenant: tenant.clone(), run: run.parse()? };
    match (what.as_str(), rest) {
        ("write", []) => agent::write_for_ever(&*journal, &run).await,
        ("work", [world, turns, death @ ..]) => {
            let world = World::new(world.as_ref())?;
            let mut agent = Agent::new(journal, run, world, turns.parse()?);
            agent.death = read_death(death)?;
            agent.work().await
        }
        _ => anyhow::bail!("there is no `{what}`"),
    }
}

fn read_death(words: &[String]) -> anyhow::Result<Death> {
    let [when, count] = words else { return Ok(Death::default()) };
    let count = Some(count.parse().context("when to die")?);
    Ok(match when.as_str() {
        "before" => Death { before: count, after: None },
        _ => Death { before: None, after: count },
    })
}
