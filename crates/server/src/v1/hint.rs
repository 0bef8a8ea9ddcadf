//! Hints on the result of a call or a cell: why it may have failed.

use belljar_api::call::{Hint, HintCode};
use belljar_node::{NetworkNeed, NetworkSigns};
use belljar_sandboxes::Sandbox;

/// Reads along with the output of one call.
#[derive(Debug)]
pub(super) struct Hints {
    /// None if the sandbox has a network.
    signs: Option<NetworkSigns>,
}

impl Hints {
    pub(super) fn new(sandbox: &Sandbox) -> Self {
        let has_none = sandbox.network().wish.policy.is_none();
        Self { signs: has_none.then(NetworkSigns::default) }
    }

    /// Takes the next piece of output, or an exception.
    pub(super) fn push(&mut self, bytes: &[u8]) {
        if let Some(signs) = &mut self.signs {
            signs.push(bytes);
        }
    }

    /// The hint for a call that failed.
    pub(super) fn finish(&self) -> Option<Hint> {
        let need = self.signs.as_ref()?.need()?;
        let what = match need {
            NetworkNeed::Packages => {
                "The sandbox has no network access, so no package index can \
                be reached. Create it with packages in its network policy, or set the policy"
            }
            NetworkNeed::Hosts => {
                "The sandbox has no network access, and the code tried to reach \
                a host. Create it with a network policy that allows the host, or set the policy"
            }
        };
        let message = format!("{what} with PUT /v1/sandboxes/{{sandbox}}/network.");
        Some(Hint { code: HintCode::NoNetwork, message })
    }
}
