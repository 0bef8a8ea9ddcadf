//! Templates, read from a node that responds.
//!
//! A tenant's home node has all of the tenant's templates. Other nodes have those of the operator,
//! and those that nodes share through objects. So a read goes to the home node, and to others if
//! the home node does not respond: runs and sandboxes begin while it is away.

use std::time::Instant;

use axum::body::Body;
use axum::response::Response;
use belljar_domain::NodeNumber;
use http::{HeaderValue, Request, StatusCode};

use crate::control::Control;
use crate::forward::Unreached;
use crate::keyed::hold;
use crate::keys::Caller;
use crate::merge::INCOMPLETE;
use crate::refuse::{Refusal, Surface};
use crate::route::passed;

/// Nodes that are asked when the home node does not respond.
const MAX_OTHERS: usize = 4;

/// The nodes that can make a sandbox from something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Site {
    Any,
    Only(NodeNumber),
    /// The node that built the template does not respond. Others may have it.
    Elsewhere,
}

impl Site {
    pub(crate) fn only(self) -> Option<NodeNumber> {
        match self {
            Self::Only(node) => Some(node),
            Self::Any | Self::Elsewhere => None,
        }
    }
}

impl From<Option<NodeNumber>> for Site {
    fn from(only: Option<NodeNumber>) -> Self {
        only.map_or(Self::Any, Self::Only)
    }
}

impl Control {
    /// Answers a request for all templates, or for the one of this name.
    pub(crate) async fn read_templates(
        &self,
        surface: Surface,
        caller: &Caller,
        home: NodeNumber,
        name: Option<&str>,
        request: Request<Body>,
    ) -> Result<Response, Refusal> {
        let held = hold(request).await?;
        let heard = self.roster().hears(home, Instant::now());
        let others = self.nodes().into_iter().filter(|node| *node != home);
        let others = others.filter(|node| self.roster().hears(*node, Instant::now()));
        let others = others.take(MAX_OTHERS);
        // A node that is silent may keep a request waiting: it is asked last.
        let mut order: Vec<NodeNumber> = others.collect();
        let place = if heard { 0 } else { order.len() };
        order.insert(place, home);
        let (mut refused, mut error) = (None, Unreached::Gone);
        for node in order {
            match self.forward_for(caller, &[], node, held.request()).await {
                Ok(response) if node == home => return Ok(response),
                Ok(mut response) if response.status().is_success() => {
                    tracing::info!(node = %node, home = %home, "templates read from another node");
                    if name.is_none() {
                        // Templates that only the home node has are not in the list.
                        response.headers_mut().insert(INCOMPLETE, HeaderValue::from(1));
                    }
                    return Ok(response);
                }
                Ok(response) => refused = Some(response),
                Err(last @ (Unreached::Form(_) | Unreached::Database)) => {
                    return Ok(passed(Err(last), surface));
                }
                Err(last) if node == home => error = last,
                Err(_) => {}
            }
        }
        match (refused, name) {
            (Some(response), Some(name)) if response.status() == StatusCode::NOT_FOUND => {
                // No node has it, unless the home node built it.
                match self.builder_of(caller, name).await? {
                    Some(_) => Err(home_away()),
                    None => Ok(response),
                }
            }
            (Some(response), _) => Ok(response),
            (None, _) => Ok(passed(Err(error), surface)),
        }
    }

    /// The node that built a tenant's template.
    pub(crate) async fn builder_of(
        &self,
        caller: &Caller,
        name: &str,
    ) -> Result<Option<NodeNumber>, Refusal> {
        let plain = name.split(':').next().unwrap_or(name);
        let plain = plain.rsplit('/').next().unwrap_or(plain).to_lowercase();
        let found = self.store().whereabouts(&caller.proven.tenant, "template", &plain).await;
        found.map_err(|error| self.database(&error))
    }
}

/// Only a node that does not respond has the template.
pub(crate) fn home_away() -> Refusal {
    let message = "the node that built this template does not respond, and no other node has it";
    Refusal::busy("node_unreachable", message)
}
