//! Enrolment and renewal of nodes, and the time for those that cannot verify control yet.

use axum::Json;
use axum::body::Body;
use axum::response::{IntoResponse as _, Response};
use belljar_domain::NodeNumber;
use belljar_identity::{PeerIdentity, PublicKey, Purpose, digest, verify_bytes};
use belljar_peer_proto::enrolment::{AskClock, Certificate, Enrol};
use belljar_store::EnrolOutcome;
use http::Request;
use serde_json::json;

use crate::control::Control;
use crate::keyring::moment;
use crate::nodes::{NodeRefusal, node_of, read};

/// A name, a token, a key and a signature.
const LONGEST_ENROLMENT: usize = 4096;

impl Control {
    /// Redeems a one-time token. The only thing that a client without a certificate can
    /// change here.
    pub(crate) async fn hear_enrol(&self, request: Request<Body>) -> Result<Response, NodeRefusal> {
        let enrol: Enrol = read(request, LONGEST_ENROLMENT).await?;
        let key = PublicKey::from_bytes(&enrol.public_key.0);
        let key = key.map_err(|_| NodeRefusal::Malformed)?;
        let (name, token) = (enrol.name.as_bytes(), &enrol.token.0);
        if !verify_bytes(&[key], Purpose::Enrolment, name, token, &enrol.proof.0) {
            return Err(NodeRefusal::Proof);
        }
        // Guessing is hopeless, and must not cost others their connections either.
        let permit = self.enrolling().acquire().await;
        let _permit = permit.map_err(|_| NodeRefusal::Database)?;
        let outcome = self.store().enrol(&digest(token), &enrol.name, key.as_bytes()).await;
        let number = match outcome.map_err(|error| database(&error))? {
            EnrolOutcome::Enrolled(number) => number,
            EnrolOutcome::UnknownToken => return Err(NodeRefusal::UnknownToken),
            EnrolOutcome::ExpiredToken => return Err(NodeRefusal::ExpiredToken),
            EnrolOutcome::UsedToken => return Err(NodeRefusal::UsedToken),
            EnrolOutcome::OtherName => return Err(NodeRefusal::OtherName),
        };
        let certificate = self.certify(number, &key).await?;
        let (actor, detail) = (format!("node:{}", enrol.name), json!({ "key": key.to_string() }));
        let audited = self.store().audit(None, &actor, "node.enrol", &enrol.name, &detail).await;
        audited.map_err(|error| database(&error))?;
        tracing::info!(node = enrol.name, %number, %key, "node enrolled");
        Ok(Json(certificate).into_response())
    }

    /// Issues a newer certificate for the same key.
    pub(crate) async fn hear_renew(&self, request: Request<Body>) -> Result<Response, NodeRefusal> {
        let (number, PeerIdentity { public_key, .. }) = node_of(&request)?;
        let certificate = self.certify(number, &public_key).await?;
        tracing::info!(%number, expires_at = certificate.expires_at, "node certificate renewed");
        Ok(Json(certificate).into_response())
    }

    async fn certify(
        &self,
        number: NodeNumber,
        key: &PublicKey,
    ) -> Result<Certificate, NodeRefusal> {
        let certificate = self.keyring().issue(number, key).map_err(|error| {
            tracing::error!(error = &error as &dyn std::error::Error, "cannot issue certificate");
            NodeRefusal::Database
        })?;
        let until = moment(certificate.expires_at);
        let known = self.store().certify(number, key.as_bytes(), until).await;
        if known.map_err(|error| database(&error))? {
            Ok(certificate)
        } else {
            Err(NodeRefusal::UnknownKey)
        }
    }

    /// Says what time it is. It changes nothing and tells nothing else.
    pub(crate) async fn tell_clock(&self, request: Request<Body>) -> Result<Response, NodeRefusal> {
        let asked: AskClock = read(request, LONGEST_ENROLMENT).await?;
        let signed = self.keyring().sign_clock(&asked.nonce.0).map_err(|error| {
            tracing::error!(error = &error as &dyn std::error::Error, "cannot sign clock");
            NodeRefusal::Database
        })?;
        Ok(signed.into_response())
    }
}

pub(crate) fn database(error: &belljar_store::StoreError) -> NodeRefusal {
    tracing::error!(error = error as &dyn std::error::Error, "database query failed");
    NodeRefusal::Database
}
