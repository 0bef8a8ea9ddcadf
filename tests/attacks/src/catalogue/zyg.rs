//! ZYG: warm interpreters and what is forked from them.

mod children;
mod forging;
mod keeping;

use crate::attack::{Act, Attack, Control, Run, Seen};
use crate::harness::stage::Stage;

pub(crate) fn attacks() -> Vec<Attack> {
    let driven = |id, act: fn(Stage) -> Run, control| Attack::new(id, Act::Driven(act), control);
    let by_nature = "what is shared is documented; the way out, executing, is compared instead";
    let counted = "nothing keeps a zygote: its replacement is watched from outside";
    let ended = "what follows the end of the zygote cannot be switched off";
    vec![
        driven(
            "ZYG-01",
            |stage| Box::pin(here(stage, |stage| children::memory(stage, &[]))),
            Control::Own(|stage| Box::pin(children::memory(stage, &["plant"]))),
        ),
        driven(
            "ZYG-02",
            |stage| Box::pin(here(stage, |stage| children::inherited(stage, &[]))),
            Control::Own(|stage| Box::pin(children::inherited(stage, &["more"]))),
        ),
        driven(
            "ZYG-03",
            |stage| Box::pin(here(stage, |stage| children::draws(stage, &[]))),
            Control::Own(|stage| Box::pin(children::draws(stage, &["rigged"]))),
        ),
        driven(
            "ZYG-04",
            |stage| Box::pin(here(stage, children::layout)),
            Control::Because(by_nature),
        ),
        driven(
            "ZYG-05",
            |stage| Box::pin(here(stage, |stage| children::shared(stage, &[]))),
            Control::Own(|stage| Box::pin(children::shared(stage, &["share"]))),
        ),
        driven(
            "ZYG-06",
            |stage| Box::pin(here(stage, forging::all)),
            Control::Own(|stage| Box::pin(forging::itself(stage))),
        ),
        driven(
            "ZYG-07",
            |stage| Box::pin(here(stage, children::confined)),
            Control::Own(|stage| Box::pin(children::unconfined(stage))),
        ),
        driven("ZYG-08", |stage| Box::pin(here(stage, keeping::ended)), Control::Because(ended)),
        driven(
            "ZYG-09",
            |stage| Box::pin(here(stage, children::counted)),
            Control::Own(|stage| Box::pin(children::uncounted(stage))),
        ),
        driven(
            "ZYG-10",
            |stage| Box::pin(here(stage, |stage| children::modules(stage, false))),
            Control::Own(|stage| Box::pin(children::modules(stage, true))),
        ),
        driven(
            "ZYG-11",
            |stage| Box::pin(here(stage, keeping::replaced)),
            Control::Because(counted),
        ),
        driven(
            "ZYG-12",
            |stage| Box::pin(here(stage, |stage| children::handles(stage, &[]))),
            Control::Own(|stage| Box::pin(children::handles(stage, &["open"]))),
        ),
        driven(
            "ZYG-13",
            |stage| Box::pin(here(stage, keeping::poisoned)),
            Control::Own(|stage| Box::pin(keeping::poison_on_the_host(stage))),
        ),
    ]
}

/// Only where there is a warm template; the suite fails without one unless it
/// was told not to.
async fn here<F>(stage: Stage, act: impl FnOnce(Stage) -> F) -> anyhow::Result<Seen>
where
    F: Future<Output = anyhow::Result<Seen>>,
{
    if stage.warm.is_none() {
        return Ok(Seen::NotHere("the warm template is not built".to_owned()));
    }
    act(stage).await
}
