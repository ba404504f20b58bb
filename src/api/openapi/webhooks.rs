//! What the server posts, as the document's `webhooks`: Standard Webhooks.
//!
//! They have a tag of their own: generators make a class of each tag, and one of the webhooks of a
//! tag, which would take the place of the class of its routes.

use serde_json::{Map, Value, json};

use super::schemas::Schemas;
use crate::api::webhook::Webhook;

/// The tag of all webhooks, which no route has.
pub const TAG: &str = "webhooks";

/// Generates the `webhooks` of the document.
pub fn webhooks(webhooks: &[&Webhook], schemas: &mut Schemas) -> Value {
    let all = webhooks
        .iter()
        .map(|webhook| (webhook.name.to_string(), json!({"post": operation(webhook, schemas)})));
    Value::Object(all.collect::<Map<_, _>>())
}

fn operation(webhook: &Webhook, schemas: &mut Schemas) -> Value {
    let message = json!({
        "type": "object",
        "description": webhook.about,
        "properties": {
            "type": schemas.output(webhook.kind),
            "timestamp": {
                "type": "string",
                "format": "date-time",
                "description": "When what it is about happened."
            },
            "data": schemas.output(webhook.data),
        },
        "required": ["type", "timestamp", "data"]
    });
    let (head, tail) = webhook.name.split_at(1);
    let name = format!("{}{tail}Webhook", head.to_ascii_uppercase());
    let schema = schemas.compose(name, message);
    let parameter = |key| json!({"$ref": format!("#/components/parameters/{key}")});
    json!({
        "operationId": format!("{}Webhook", webhook.name),
        "tags": [TAG],
        "summary": webhook.about,
        "description": webhook.description,
        "security": [],
        "parameters": [
            parameter("WebhookId"), parameter("WebhookTimestamp"), parameter("WebhookSignature"),
        ],
        "requestBody": {"required": true, "content": {"application/json": {"schema": schema}}},
        "responses": {
            "2XX": {"description": "Received; it is not sent again. The body is not read."},
            "410": {"description": "The address is no longer used; what follows is in the description."},
            "default": {"description": "Not received; it is sent again later. Redirects are not followed."}
        }
    })
}

/// The headers of what is posted, as parameters of the document.
pub fn parameters() -> Value {
    json!({
        "WebhookId": {
            "name": "webhook-id",
            "in": "header",
            "required": true,
            "description": "Identifies the message. It stays the same when the message is sent \
                            again, so that a receiver can recognize what it has.",
            "schema": {"type": "string"}
        },
        "WebhookTimestamp": {
            "name": "webhook-timestamp",
            "in": "header",
            "required": true,
            "description": "When it was sent, in seconds since 1970. Refuse what is older than a few \
                            minutes: it may be a copy.",
            "schema": {"type": "string", "pattern": "^[0-9]+$"}
        },
        "WebhookSignature": {
            "name": "webhook-signature",
            "in": "header",
            "required": true,
            "description": "`v1,` and the Base64 of the HMAC-SHA256 of `{webhook-id}.\
                            {webhook-timestamp}.{body}`; the key is the Base64 part of the secret, \
                            decoded (Standard Webhooks).",
            "schema": {"type": "string", "pattern": "^v1,"}
        }
    })
}
