//! The shared components of the document: parameters, headers, error responses, credentials.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde_json::{Map, Value, json};

use super::schemas::Schemas;
use crate::api::common_params::{
    CursorQuery, LimitQuery, OrgOptional, OrgRequired, ReversedQuery, TotalQuery, WaitQuery,
};
use crate::api::op::SchemaOf;

/// Everything in `components` except the schemas.
pub fn components(schemas: &mut Schemas) -> Value {
    json!({
        "securitySchemes": {
            "apiKeyHeader": {
                "type": "apiKey",
                "in": "header",
                "name": "X-API-Key",
                "description": "An organization's API key. It takes precedence over `Authorization`."
            },
            "bearer": {
                "type": "http",
                "scheme": "bearer",
                "description": "An organization's API key, or a session token."
            },
            "nostr": {
                "type": "http",
                "scheme": "nostr",
                "description": "An event that signs this request (NIP-98): kind 27235, as JSON in \
                                Base64, with the tags `u` (the absolute URL), `method` and, if \
                                there is a body, `payload` (its SHA-256 in hexadecimal). It is \
                                accepted once, within 60 seconds of its `created_at`."
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
            "description": "A request with the same key, credential and path within 24 hours gets \
                            the first response again; with another body it gets 409.",
            "schema": {"type": "string", "minLength": 1, "maxLength": 255, "pattern": "^[ -~]*$"}
        },
        "IfMatch": {
            "name": "If-Match",
            "in": "header",
            "description": "Executes the request only if the resource still has this ETag; 412 otherwise.",
            "schema": {"type": "string"}
        },
        "IfNoneMatch": {
            "name": "If-None-Match",
            "in": "header",
            "description": "Answers with 304 if the resource still has this ETag.",
            "schema": {"type": "string"}
        },
        "LastEventId": {
            "name": "Last-Event-ID",
            "in": "header",
            "description": "The id of the last event that the client had: a stream goes on after it.",
            "schema": {"type": "string"}
        },
        "Prefer": {
            "name": "Prefer",
            "in": "header",
            "description": "`handling=lenient` ignores unknown fields and parameters, which are \
                            refused otherwise (RFC 7240).",
            "schema": {"type": "string"}
        }
    });
    // Generated from the types that requests are bound to, so that no bound is stated twice.
    let fields: [(&str, SchemaOf); 7] = [
        ("OrgSlug", |generator| generator.subschema_for::<OrgRequired>()),
        ("OptionalOrgSlug", |generator| generator.subschema_for::<OrgOptional>()),
        ("Limit", |generator| generator.subschema_for::<LimitQuery>()),
        ("Cursor", |generator| generator.subschema_for::<CursorQuery>()),
        ("Reversed", |generator| generator.subschema_for::<ReversedQuery>()),
        ("Total", |generator| generator.subschema_for::<TotalQuery>()),
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
            "description": "Identifies the request in the log: the id that was sent, or a new one.",
            "schema": {"type": "string", "maxLength": 128}
        },
        "ETag": {
            "description": "Identifies the current state, for `If-Match` and `If-None-Match`.",
            "schema": {"type": "string"}
        },
        "IdempotencyReplayed": {
            "description": "Present if this is the response to an earlier request with the same \
                            `Idempotency-Key`.",
            "schema": {"const": "true"}
        },
        "IdempotencyStored": {
            "description": "Present if the request had an `Idempotency-Key` and was executed, but this \
                            response is not stored: repeated, it is 409 `answer_not_kept`.",
            "schema": {"const": "false"}
        },
        "RetryAfter": {
            "description": "The number of seconds after which to retry.",
            "schema": {"type": "integer", "minimum": 0}
        },
        "RateLimit": {
            "description": "The remaining quota, and when it is restored.",
            "schema": {"type": "string"}
        },
        "RateLimitPolicy": {
            "description": "The quota, and its time window.",
            "schema": {"type": "string"}
        }
    })
}

/// An error response: key, description, and headers in addition to `X-Request-Id`.
type Failure = (&'static str, &'static str, &'static [(&'static str, &'static str)]);

const FAILURES: [Failure; 12] = [
    ("Invalid", "The request is invalid; `issues` lists every problem.", &[]),
    (
        "Unauthenticated",
        "The credential is missing or not valid, or an API key was sent where a session is \
         required.",
        &[],
    ),
    ("Forbidden", "The credential is valid but does not permit this.", &[]),
    ("NotFound", "There is no such resource, or the caller may not know of it.", &[]),
    (
        "Conflict",
        "The state does not allow it, the resource exists already, or the `Idempotency-Key` was used \
         for another request.",
        &[("Retry-After", "RetryAfter")],
    ),
    ("PreconditionFailed", "The resource no longer has the ETag in `If-Match`.", &[]),
    ("TooLarge", "The body exceeds the size limit.", &[]),
    ("UnsupportedMediaType", "The media type of the body is not supported.", &[]),
    (
        "RateLimited",
        "Too many requests.",
        &[
            ("Retry-After", "RetryAfter"),
            ("RateLimit", "RateLimit"),
            ("RateLimit-Policy", "RateLimitPolicy"),
        ],
    ),
    ("Internal", "An internal error.", &[]),
    ("Upstream", "An external system failed; the message says which, and how.", &[]),
    (
        "Busy",
        "Temporarily unavailable: overloaded, stopping, or it is unknown whether the change was \
         stored.",
        &[("Retry-After", "RetryAfter")],
    ),
];

fn responses(schemas: &mut Schemas) -> Value {
    let problem = schemas.output(|generator| generator.subschema_for::<Problem>());
    let header = |key: &str| json!({"$ref": format!("#/components/headers/{key}")});
    let mut responses = Map::new();
    let not_modified = json!({
        "description": "The resource still has the ETag in `If-None-Match`.",
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

/// The body of an error (reference: conventions, "Errors"), for its schema only.
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
                    "description": "Says what is wrong and what to do, for people."
                },
                "code": {
                    "type": "string",
                    "pattern": "^[a-z0-9_]+$",
                    "description": "A stable identifier of the error, for programs."
                },
                "requestId": {"type": "string", "description": "As in `X-Request-Id`."},
                "path": {
                    "type": "string",
                    "description": "On 404, the field or parameter that named what there is none of."
                },
                "issues": {
                    "type": "array",
                    "description": "On 400, every problem of the request.",
                    "items": {
                        "type": "object",
                        "properties": {
                            "path": {
                                "type": "string",
                                "description": "The path of the field, with dots and `[n]` from 0."
                            },
                            "message": {
                                "type": "string",
                                "description": "What is wrong with it, as a phrase that follows the path."
                            }
                        },
                        "required": ["path", "message"]
                    }
                },
                "challenge": {
                    "type": "string",
                    "description": "With `code_required`: continues the sign-in together with a \
                                    code. It is valid for five minutes, once."
                }
            },
            "required": ["message", "code", "requestId"]
        })
    }
}
