//! The cost of a program's model requests, out of the gateway's rows. What the program says itself
//! is not believed.

use belljar_api::network::Connection;
use belljar_journal::NewEvent;
use belljar_journal::event::{Body, CallRef, LlmResponded, Tokens};

use super::super::{Work, WorkError};
use crate::network;

/// The reason of a request that its budget did not pay for.
pub(super) const BUDGET: &str = "budget";
/// The reason of a request whose token the gateway does not know, or that has expired.
pub(super) const TOKEN: &str = "token";

/// The sum of requests to models.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Cost {
    pub(super) tokens: Tokens,
    pub(super) nano_dollars: u64,
    pub(super) is_assumed: bool,
    /// Of the first of them.
    pub(super) first_byte_micros: Option<u64>,
    pub(super) micros: u64,
}

impl Cost {
    fn of(rows: &[Connection]) -> Self {
        let mut cost = Self::default();
        for row in rows {
            let Some(charge) = &row.charge else { continue };
            let tokens = &mut cost.tokens;
            for (sum, more) in [
                (&mut tokens.input, charge.input),
                (&mut tokens.cache_read, charge.cache_read),
                (&mut tokens.cache_write, charge.cache_write),
                (&mut tokens.output, charge.output),
                (&mut cost.nano_dollars, charge.nano_dollars),
                (&mut cost.micros, row.micros),
            ] {
                *sum = sum.saturating_add(more);
            }
            cost.is_assumed |= charge.assumed || charge.estimated;
            cost.first_byte_micros = cost.first_byte_micros.or(row.first_byte_micros);
        }
        cost
    }

    fn is_nothing(&self) -> bool {
        *self == Self::default()
    }
}

impl Work<'_> {
    /// Counts the rows that no event counts yet. Its event and the one that has the cost are
    /// written at once.
    pub(super) async fn settle(&self, call: &CallRef) -> Result<Cost, WorkError> {
        self.flush().await?;
        let rows = self.new_rows().await;
        if let Some(used) = network::used(call, &rows) {
            let through = used.through.unwrap_or_default();
            let key = format!("network:{}:{}:{through}", call.turn, call.id);
            self.append(NewEvent::new(used).keyed(&key).waiting()).await?;
        }
        Ok(Cost::of(&rows))
    }

    /// Charges requests that belong to no turn, such as those of a program that was killed.
    pub(super) async fn settle_rest(
        &mut self,
        call: &CallRef,
        last_turn: u32,
    ) -> Result<(), WorkError> {
        self.flush().await?;
        self.catch_up().await?;
        let cost = self.settle(call).await?;
        if !cost.is_nothing() {
            // No event tells when these were asked for: the last one that is known stands for it.
            let turn = last_turn.max(call.turn);
            let answer = LlmResponded {
                turn,
                asked: self.story.view.head,
                blocks: Vec::new(),
                stop: String::new(),
                tokens: cost.tokens,
                nano_dollars: cost.nano_dollars,
                assumed: cost.is_assumed,
                upstream_request: None,
                raw: None,
                first_token_micros: cost.first_byte_micros,
                micros: cost.micros,
            };
            let key = format!("program:rest:{}:{}", call.id, self.story.view.head);
            self.append(NewEvent::new(answer).keyed(&key)).await?;
        }
        self.flush().await?;
        self.catch_up().await
    }

    /// Returns true if the gateway refused a request of the call for this reason.
    pub(super) fn was_refused(&self, call: &CallRef, reason: &str) -> bool {
        self.events.iter().any(|event| match &event.body {
            Body::NetworkUsed(used) if used.call == *call => {
                used.refusals.iter().any(|refusal| refusal.reason == reason)
            }
            _ => false,
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn row(charge: &Value) -> Connection {
        serde_json::from_value(json!({
            "sequence": 1, "sandbox": "s", "kind": "operation", "decision": "allowed",
            "reason": "operation", "bytes": { "out": 10, "in": 20 }, "began": 0, "micros": 7,
            "charge": charge,
        }))
        .unwrap()
    }

    #[test]
    fn requests_are_summed_and_other_rows_cost_nothing() {
        let charge = |assumed| {
            json!({ "model": "m", "input": 1, "cache_read": 2, "cache_write": 3, "output": 4,
                "nano_dollars": 50, "assumed": assumed })
        };
        let cost = Cost::of(&[row(&charge(false)), row(&Value::Null), row(&charge(true))]);
        assert_eq!((cost.tokens.total(), cost.nano_dollars, cost.micros), (20, 100, 14));
        assert!(cost.is_assumed);
        assert!(Cost::of(&[row(&Value::Null)]).is_nothing());
    }
}
