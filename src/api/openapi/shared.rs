//! What many routes share and the document describes once: parameters, headers, failures,
//! credentials.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde_json::{Map, Value, json};

use super::schemas::Schemas;
use crate::api::common_params::{CursorQuery, LimitQuery, OrgOptional, OrgRequired, WaitQuery};
use crate::api::op::SchemaOf;

/// Everything in `components` but the schemas.
pub fn components(schemas: &mut Schemas) -> Value {
    json!({
        "securitySchemes": {
            "apiKeyHeader": {
                "type": "apiKey",
                "in": "header",
                "name": "X-API-Key",
                "description": "An organization's API key. It wins over `Authorization`."
            },
            "bearer": {
                "type": "http",
                "scheme": "bearer",
                "description": "An organization's API key, or the token of a session."
            }
        },
        "parameters": parameters(schemas),
        "headers": headers(),
        "responses": responses(schemas),
    })
}

fn parameters(schemas: &mut Schemas) -> Value {
    let mut parameters = json!({
        "IdempotencyKey": {
            "name": "Idempotency-Key",
            "in": "header",
            "description": "The same key, credential and path within 24 hours get the first answer \
                            again; with another body 409.",
            "schema": {"type": "string", "minLength": 1, "maxLength": 255, "pattern": "^[ -~]*$"}
        },
        "IfMatch": {
            "name": "If-Match",
            "in": "header",
            "description": "Only if the thing still has this ETag; 412 otherwise.",
            "schema": {"type": "string"}
        },
        "IfNoneMatch": {
            "name": "If-None-Match",
            "in": "header",
            "description": "304 if the thing still has this ETag.",
            "schema": {"type": "string"}
        }
    });
    // Read from the types that requests are read into, so that no bound is written twice.
    let fields: [(&str, SchemaOf); 5] = [
        ("OrgSlug", |generator| generator.subschema_for::<OrgRequired>()),
        ("OptionalOrgSlug", |generator| generator.subschema_for::<OrgOptional>()),
        ("Limit", |generator| generator.subschema_for::<LimitQuery>()),
        ("Cursor", |generator| generator.subschema_for::<CursorQuery>()),
        ("Wait", |generator| generator.subschema_for::<WaitQuery>()),
    ];
    for (key, field) in fields {
        parameters[key] = schemas.query(field).remove(0);
    }
    parameters
}

fn headers() -> Value {
    json!({
        "RequestId": {
            "description": "What the log calls this request: the one that was sent, or a new one.",
            "schema": {"type": "string", "maxLength": 128}
        },
        "ETag": {
            "description": "What `If-Match` and `If-None-Match` take.",
            "schema": {"type": "string"}
        },
        "IdempotencyReplayed": {
            "description": "Present when this is the answer to an earlier request of the same \
                            `Idempotency-Key`.",
            "schema": {"const": "true"}
        },
        "RetryAfter": {
            "description": "The seconds after which trying again makes sense.",
            "schema": {"type": "integer", "minimum": 0}
        },
        "RateLimit": {
            "description": "What is left of the limit, and when it is whole again.",
            "schema": {"type": "string"}
        },
        "RateLimitPolicy": {
            "description": "The limit, and the time it is for.",
            "schema": {"type": "string"}
        }
    })
}

/// The failures: key, what it means, and the headers that come beside `X-Request-Id`.
type Failure = (&'static str, &'static str, &'static [(&'static str, &'static str)]);

const FAILURES: [Failure; 12] = [
    ("Invalid", "What was sent is wrong; `issues` lists every problem found.", &[]),
    (
        "Unauthenticated",
        "No credential that counts, or an API key where only a session will do.",
        &[],
    ),
    ("Forbidden", "A good credential that may not do this.", &[]),
    ("NotFound", "Nothing there that the caller may know of.", &[]),
    (
        "Conflict",
        "The state does not allow it, it exists already, or the `Idempotency-Key` was used for \
         something else.",
        &[("Retry-After", "RetryAfter")],
    ),
    ("PreconditionFailed", "`If-Match` named another state.", &[]),
    ("TooLarge", "The body is larger than is taken.", &[]),
    ("UnsupportedMediaType", "The body is of a media type that is not taken.", &[]),
    (
        "RateLimited",
        "Too often.",
        &[
            ("Retry-After", "RetryAfter"),
            ("RateLimit", "RateLimit"),
            ("RateLimit-Policy", "RateLimitPolicy"),
        ],
    ),
    ("Internal", "Something went wrong on our side.", &[]),
    ("Upstream", "A system outside failed; the message says which, and how.", &[]),
    (
        "Busy",
        "Not now: overloaded, stopping, or it is not known whether the change was kept.",
        &[("Retry-After", "RetryAfter")],
    ),
];

fn responses(schemas: &mut Schemas) -> Value {
    let problem = schemas.output(|generator| generator.subschema_for::<Problem>());
    let header = |key: &str| json!({"$ref": format!("#/components/headers/{key}")});
    let mut responses = Map::new();
    let not_modified = json!({
        "description": "It is still what `If-None-Match` named.",
        "headers": {"X-Request-Id": header("RequestId"), "ETag": header("ETag")}
    });
    responses.insert("NotModified".into(), not_modified);
    for (key, description, more) in FAILURES {
        let mut headers = json!({"X-Request-Id": header("RequestId")});
        for (name, key) in more {
            headers[*name] = header(key);
        }
        let failure = json!({
            "description": description,
            "headers": headers,
            "content": {"application/json": {"schema": problem}}
        });
        responses.insert(key.into(), failure);
    }
    Value::Object(responses)
}

/// The body of a failure (reference: conventions, "Errors"), for its schema alone.
struct Problem;

impl JsonSchema for Problem {
    fn schema_name() -> Cow<'static, str> {
        "Problem".into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "object",
            "properties": {
                "message": {
                    "type": "string",
                    "description": "A sentence that a person can act on."
                },
                "code": {
                    "type": "string",
                    "pattern": "^[a-z0-9_]+$",
                    "description": "A stable word for programs."
                },
                "requestId": {"type": "string", "description": "As in `X-Request-Id`."},
                "issues": {
                    "type": "array",
                    "description": "On 400, every problem found.",
                    "items": {
                        "type": "object",
                        "properties": {
                            "path": {
                                "type": "string",
                                "description": "Where: dotted, with `[n]` from 0."
                            },
                            "message": {"type": "string"}
                        },
                        "required": ["path", "message"]
                    }
                }
            },
            "required": ["message", "code", "requestId"]
        })
    }
}
