//! Webhooks of a server or a platform.

use belljar_api::Operation;
use belljar_api::webhook::{
    CreateWebhook, ListWebhookDeliveries, Webhook, WebhookDelivery, WebhookDeliveryList,
    WebhookList,
};

use crate::client::Client;
use crate::error::Error;
use crate::request::Asking;

impl Client {
    /// Creates a webhook. The answer has its secret, once.
    pub async fn create_webhook(&self, new: &CreateWebhook) -> Result<Webhook, Error> {
        self.value(Asking::new(Operation::CreateWebhook, &[]).json(new)?).await
    }

    pub async fn webhooks(&self) -> Result<WebhookList, Error> {
        self.value(Asking::new(Operation::ListWebhooks, &[])).await
    }

    pub async fn webhook(&self, id: &str) -> Result<Webhook, Error> {
        self.value(Asking::new(Operation::GetWebhook, &[id])).await
    }

    pub async fn delete_webhook(&self, id: &str) -> Result<(), Error> {
        self.nothing(Asking::new(Operation::DeleteWebhook, &[id])).await
    }

    /// Queues a test message.
    pub async fn test_webhook(&self, id: &str) -> Result<WebhookDelivery, Error> {
        self.value(Asking::new(Operation::TestWebhook, &[id])).await
    }

    /// Makes a new secret. The answer has it, once.
    pub async fn rotate_webhook(&self, id: &str) -> Result<Webhook, Error> {
        self.value(Asking::new(Operation::RotateWebhook, &[id])).await
    }

    pub async fn enable_webhook(&self, id: &str) -> Result<Webhook, Error> {
        self.value(Asking::new(Operation::EnableWebhook, &[id])).await
    }

    /// The newest messages to a webhook.
    pub async fn webhook_deliveries(
        &self,
        id: &str,
        query: &ListWebhookDeliveries,
    ) -> Result<WebhookDeliveryList, Error> {
        self.value(Asking::new(Operation::ListWebhookDeliveries, &[id]).query(query)?).await
    }
}
