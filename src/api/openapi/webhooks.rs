//! What the server posts, as the document's `webhooks`: Standard Webhooks.

use serde_json::{Map, Value, json};

use super::schemas::Schemas;
use crate::api::webhook::Webhook;

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
        "tags": [webhook.group],
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
