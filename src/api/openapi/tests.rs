//! The document of a few sample routes.

#![expect(dead_code, reason = "of most types here only the schema is wanted")]

mod composed;
mod mistakes;
mod scopes;

use std::collections::BTreeSet;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{Contents, document, problems, routes_markdown, routes_table};
use crate::api::{
    Calls, Deleted, Empty, Input, OrgSlugMode, OrgSource, Output, RawArgs, Req, ResourceRef, Route,
    ServerInfo, Webhook, op,
};
use crate::auth::{ADMIN, ANYONE, MEMBER, SESSION, SESSION_ADMIN, SESSION_MEMBER, ScopeName};
use crate::base::{Error, Id, Int, Json, Keys, Nullable, Result, Text, Time, Title};
use crate::outbox::Target;
use crate::store::{Page, Tx, View};

/// How far a boat has come.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum State {
    /// On the slip.
    Building,
    Afloat,
}

#[derive(Serialize, Deserialize, JsonSchema)]
struct Crew {
    captain: String,
    mate: Option<String>,
}

/// It differs between the directions only by what it holds.
#[derive(Serialize, Deserialize, JsonSchema)]
struct Watch {
    crew: Crew,
}

#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Boat {
    id: Id<Target>,
    name: String,
    state: State,
    crew: Option<Crew>,
    watches: Vec<Watch>,
    masts: u32,
    papers: Json,
    launched_at: Option<Time>,
}

impl Output for Boat {
    fn resource(&self) -> Option<ResourceRef> {
        None
    }
}

#[derive(Serialize, JsonSchema)]
struct BoatMade {
    #[serde(flatten)]
    boat: Boat,
    secret: Option<String>,
}

impl Output for BoatMade {
    const MAY_SHOW_SECRET: bool = true;

    fn resource(&self) -> Option<ResourceRef> {
        None
    }
}

#[derive(Deserialize, JsonSchema)]
#[schemars(extend("examples" = [{"name": "Ark"}]))]
struct NewBoat {
    /// What it is called.
    name: Title,
    crew: Option<Crew>,
    watches: Option<Vec<Watch>>,
    decks: Option<Int<1, 4>>,
}
impl Input for NewBoat {}

#[derive(Deserialize, JsonSchema)]
#[schemars(extend("examples" = [{"name": "Ark"}]))]
struct BoatPatch {
    name: Option<Title>,
    #[serde(default)]
    crew: Nullable<Crew>,
}
impl Input for BoatPatch {}

#[derive(Deserialize, JsonSchema)]
struct KeyRange {
    start: Option<Time>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct BoatQuery {
    /// Only those that have come so far.
    state: Option<State>,
    launched: Option<KeyRange>,
    tags: Option<Vec<Text<1, 64>>>,
    harbour: String,
}
impl Input for BoatQuery {}

fn read<P, I, O>(_: &View, _: &Req<P, I>) -> Result<O> {
    Err(Error::no_such("thing"))
}

fn list<P, I, O>(_: &View, _: &Req<P, I>) -> Result<Page<O>> {
    Err(Error::no_such("thing"))
}

fn write<P, I, O>(_: &mut Tx, _: &Req<P, I>) -> Result<O> {
    Err(Error::no_such("thing"))
}

type Boats = (Id<Target>, Id<Target>);

fn routes() -> Vec<Route> {
    vec![
        Route::get(
            "/fleets/{fleetId}/boats",
            MEMBER,
            "boat.list",
            op::list::<Id<Target>, BoatQuery, Boat>(list),
        )
        .about("List the boats of a fleet"),
        Route::post(
            "/fleets/{fleetId}/boats",
            ADMIN,
            "boat.create",
            op::write::<Id<Target>, NewBoat, BoatMade>(write),
        )
        .about("Lay down a boat"),
        Route::get(
            "/fleets/{fleetId}/boats/{boatId}",
            MEMBER,
            "boat.get",
            op::read::<Boats, (), Boat>(read),
        )
        .needs(ScopeName::ToolRead)
        .needs(ScopeName::EnvironmentRead)
        .about("Show a boat"),
        Route::patch(
            "/fleets/{fleetId}/boats/{boatId}",
            SESSION_MEMBER,
            "boat.change",
            op::write::<Boats, BoatPatch, Boat>(write),
        )
        .about("Change a boat"),
        Route::delete(
            "/fleets/{fleetId}/boats/{boatId}",
            SESSION_ADMIN,
            "boat.remove",
            op::write::<Boats, (), Deleted>(write),
        )
        .about("Break up a boat"),
        Route::put("/berths/{name}", MEMBER, "berth.keep", op::write::<String, (), Empty>(write))
            .about("Keep a berth | for long")
            .org_source(OrgSource::InferFromPath(|_, _| Ok(true))),
        Route::get(
            "/berths/arrivals",
            MEMBER,
            "berth.arrivals_await",
            op::take::<(), (), Boat>("arrival", read, write),
        )
        .about("Wait for arrivals"),
        Route::post(
            "/auth/sign-out",
            SESSION,
            "session.sign_out",
            op::write::<(), (), Empty>(write),
        )
        .no_replay()
        .about("Sign out"),
        Route::get("/tides", ANYONE, "tide.get", op::read::<(), (), Empty>(read))
            .about("Show the tide"),
    ]
}

fn made() -> Value {
    document(Contents::routes(&routes()), "1.2.3")
}

/// Every operation, with its path.
fn operations(document: &Value) -> Vec<(&str, &Value)> {
    let paths = document["paths"].as_object().unwrap();
    let all = paths.iter().flat_map(|(path, item)| {
        item.as_object().unwrap().values().map(move |operation| (path.as_str(), operation))
    });
    all.collect()
}

fn operation<'a>(document: &'a Value, id: &str) -> &'a Value {
    let all = operations(document);
    all.iter().find(|(_, operation)| operation["operationId"] == id).expect("it is there").1
}

/// Follows a reference; returns any other value itself.
fn follow<'a>(document: &'a Value, value: &'a Value) -> &'a Value {
    match value["$ref"].as_str() {
        Some(at) => document.pointer(at.trim_start_matches('#')).expect("it leads somewhere"),
        None => value,
    }
}

fn parameters<'a>(document: &'a Value, id: &str) -> Vec<&'a Value> {
    let list = operation(document, id)["parameters"].as_array();
    list.into_iter().flatten().map(|parameter| follow(document, parameter)).collect()
}

fn parameter<'a>(document: &'a Value, id: &str, name: &str) -> Option<&'a Value> {
    parameters(document, id).into_iter().find(|parameter| parameter["name"] == name)
}

fn body<'a>(document: &'a Value, id: &str) -> &'a Value {
    &operation(document, id)["requestBody"]["content"]["application/json"]["schema"]
}

fn answer<'a>(document: &'a Value, id: &str) -> &'a Value {
    &operation(document, id)["responses"]["200"]["content"]["application/json"]["schema"]
}

/// Whether a value satisfies a schema of the document.
fn satisfies(document: &Value, schema: &Value, value: &Value) -> bool {
    let mut schema = schema.clone();
    schema["components"] = document["components"].clone();
    jsonschema::draft202012::new(&schema).unwrap().is_valid(value)
}

fn references<'a>(value: &'a Value, found: &mut Vec<&'a str>) {
    match value {
        Value::Array(items) => items.iter().for_each(|item| references(item, found)),
        Value::Object(object) => {
            found.extend(object.get("$ref").and_then(Value::as_str));
            object.values().for_each(|item| references(item, found));
        }
        _ => {}
    }
}

#[test]
fn every_reference_leads_somewhere_and_every_schema_is_referred_to() {
    let document = made();
    let mut found = Vec::new();
    references(&document, &mut found);
    for at in &found {
        assert!(document.pointer(at.trim_start_matches('#')).is_some(), "{at}");
    }
    for name in document["components"]["schemas"].as_object().unwrap().keys() {
        assert!(found.iter().any(|at| at.ends_with(&format!("/schemas/{name}"))), "{name}");
    }
}

#[test]
fn every_schema_is_one_of_json_schema_2020_12() {
    let document = made();
    let good = |name: &str, schema: &Value| {
        assert!(jsonschema::draft202012::meta::is_valid(schema), "{name}: {schema:#}");
    };
    for (name, schema) in document["components"]["schemas"].as_object().unwrap() {
        good(name, schema);
    }
    for (path, operation) in operations(&document) {
        let id = operation["operationId"].as_str().unwrap();
        parameters(&document, id).iter().for_each(|parameter| good(path, &parameter["schema"]));
        good(path, answer(&document, id));
    }
}

#[test]
fn path_parameters_are_declared_once() {
    let document = made();
    for (path, operation) in operations(&document) {
        let id = operation["operationId"].as_str().unwrap();
        let parameters = parameters(&document, id);
        let mut seen = BTreeSet::new();
        for parameter in &parameters {
            assert!(seen.insert((parameter["name"].as_str(), parameter["in"].as_str())), "{id}");
        }
        let in_path = parameters.iter().filter(|parameter| parameter["in"] == "path");
        let declared: Vec<String> =
            in_path.map(|p| format!("{{{}}}", p["name"].as_str().unwrap())).collect();
        let named: Vec<&str> = path.split('/').filter(|part| part.starts_with('{')).collect();
        assert_eq!(declared, named, "{id}");
    }
}

#[test]
fn scope_and_method_determine_where_the_slug_is() {
    let document = made();
    for (id, required) in [("boatList", true), ("boatRemove", true), ("berthArrivalsAwait", true)] {
        assert_eq!(parameter(&document, id, "orgSlug").unwrap()["required"], required, "{id}");
    }
    for id in ["boatCreate", "boatChange", "berthKeep", "sessionSignOut", "tideGet"] {
        assert!(parameter(&document, id, "orgSlug").is_none(), "{id}");
    }
    let create = body(&document, "boatCreate");
    assert_eq!(*create, json!({"$ref": "#/components/schemas/CreateBoat"}));
    let create = follow(&document, create);
    assert_eq!(create["required"], json!(["orgSlug", "name"]));
    assert!(create["properties"]["orgSlug"].is_object() && create["examples"].is_null());
    let keep = body(&document, "berthKeep");
    assert_eq!(*keep, json!({"$ref": "#/components/schemas/OptionalOrganizationRequest"}));
    let keep = follow(&document, keep);
    assert!(keep["properties"]["orgSlug"].is_object() && keep["required"].is_null());
    let nothing = json!({"type": "object", "additionalProperties": false});
    assert_eq!(*body(&document, "sessionSignOut"), nothing);
    let example = |id: &str| {
        &operation(&document, id)["requestBody"]["content"]["application/json"]["example"]
    };
    assert_eq!(*example("boatCreate"), json!({"orgSlug": "acme", "name": "Ark"}));
    assert_eq!(*example("berthKeep"), json!({}));
    assert_eq!(operation(&document, "boatCreate")["requestBody"]["required"], true);
    assert_eq!(operation(&document, "berthKeep")["requestBody"]["required"], false);
}

#[test]
fn each_field_of_a_query_is_a_parameter() {
    let document = made();
    let get = |name: &str| parameter(&document, "boatList", name).unwrap();
    assert_eq!(get("harbour")["required"], true);
    assert_eq!(get("state")["required"], false);
    assert_eq!(get("state")["description"], "Only those that have come so far.");
    assert_eq!(get("state")["schema"], json!({"$ref": "#/components/schemas/State"}));
    assert_eq!(get("state")["style"], Value::Null);
    assert_eq!(get("launched")["style"], "deepObject");
    let start = json!({"type": "string", "format": "date-time"});
    assert_eq!(get("launched")["schema"]["properties"]["start"], start);
    assert_eq!(get("tags")["style"], "form");
    assert_eq!(get("tags")["schema"]["type"], "array");
    assert_eq!(
        get("limit")["schema"],
        json!({"type": "integer", "minimum": 1, "maximum": 200, "default": 50})
    );
    assert_eq!(get("cursor")["schema"], json!({"type": "string"}));
    assert_eq!(
        parameter(&document, "berthArrivalsAwait", "wait").unwrap()["schema"]["maximum"],
        60
    );
    assert!(parameter(&document, "boatGet", "limit").is_none());
}

#[test]
fn an_input_may_define_its_own_limit() {
    #[derive(Deserialize, JsonSchema)]
    struct Few {
        limit: Option<Int<1, 3>>,
    }
    impl Input for Few {}
    let routes = [Route::get("/few", MEMBER, "few.list", op::list::<(), Few, Boat>(list))];
    let document = document(Contents::routes(&routes), "1");
    let limits: Vec<&Value> = parameters(&document, "fewList")
        .into_iter()
        .filter(|parameter| parameter["name"] == "limit")
        .collect();
    assert_eq!(limits.len(), 1);
    assert_eq!(limits[0]["schema"]["maximum"], 3);
}

#[test]
fn the_document_and_the_route_accept_the_same_inputs() {
    let document = made();
    let routes = routes();
    let route = routes.iter().find(|route| route.name == "boat.create").unwrap();
    let (origin, server) = (Arc::default(), Arc::new(ServerInfo::bare(Keys::new([7; 32]))));
    let params: Arc<[String]> = ["0".to_string()].into();
    for (sent, good) in [
        (json!({"orgSlug": "acme", "name": "Ark"}), true),
        (json!({"orgSlug": "acme", "name": "Ark", "crew": null, "decks": 4}), true),
        (json!({"orgSlug": "acme", "name": "Ark", "crew": {"captain": "Noah"}}), true),
        (json!({"orgSlug": "acme", "name": "Ark", "new": 1}), false),
        (json!({"orgSlug": "acme", "name": "Ark", "crew": {"captain": "Noah", "new": 1}}), false),
        (json!({"name": "Ark"}), false),
        (json!({"orgSlug": "acme"}), false),
        (json!({"orgSlug": "acme", "name": ""}), false),
        (json!({"orgSlug": "acme", "name": "Ark", "decks": 5}), false),
        (json!({"orgSlug": "acme", "name": "Ark", "crew": {}}), false),
    ] {
        let raw = RawArgs {
            org: OrgSlugMode::Required,
            ..RawArgs::body(&params, &sent, (&origin, &server))
        };
        assert_eq!(route.bind(raw).is_ok(), good, "{sent}");
        assert_eq!(satisfies(&document, body(&document, "boatCreate"), &sent), good, "{sent}");
    }
}

#[test]
fn every_field_of_a_response_is_required() {
    let document = made();
    let boat = json!({
        "id": Id::<()>::NIL.to_string(), "name": "Ark", "state": "afloat",
        "crew": {"captain": "Noah", "mate": null}, "watches": [], "masts": 2, "papers": [1], "launchedAt": null
    });
    let schema = answer(&document, "boatGet");
    assert!(satisfies(&document, schema, &boat));
    for field in boat.as_object().unwrap().keys() {
        let mut less = boat.clone();
        less.as_object_mut().unwrap().shift_remove(field);
        assert!(!satisfies(&document, schema, &less), "{field}");
    }
    let mut less = boat.clone();
    less["crew"].as_object_mut().unwrap().shift_remove("mate");
    assert!(!satisfies(&document, schema, &less));
    assert!(!satisfies(&document, answer(&document, "boatCreate"), &boat));
}

#[test]
fn a_type_with_optional_fields_used_in_both_directions_has_two_schemas() {
    let document = made();
    let schemas = &document["components"]["schemas"];
    assert_eq!(schemas["Crew"]["required"], json!(["captain", "mate"]));
    assert_eq!(schemas["CrewInput"]["required"], json!(["captain"]));
    assert!(schemas["State"].is_object() && schemas["StateInput"].is_null());
    let mut found = Vec::new();
    references(&schemas["CreateBoat"], &mut found);
    assert_eq!(found, ["#/components/schemas/CrewInput", "#/components/schemas/WatchInput"]);
    assert!(schemas["Watch"].is_object());
}

#[test]
fn unit_variants_are_an_enumeration() {
    let document = made();
    let state = &document["components"]["schemas"]["State"];
    assert_eq!(state["type"], "string");
    let mut words: Vec<&str> =
        state["enum"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
    words.sort_unstable();
    assert_eq!(words, ["afloat", "building"]);
    let about = state["description"].as_str().unwrap();
    assert_eq!(about, "How far a boat has come.\n\n- `building`: On the slip.");
}

#[test]
fn citations_of_the_reference_are_removed() {
    let document = made();
    let about =
        document["components"]["schemas"]["DeletedResource"]["description"].as_str().unwrap();
    assert_eq!(about, "The answer of DELETE.");
    assert!(!document.to_string().contains("(reference: "));
}

#[test]
fn numbers_have_only_formats_that_openapi_knows() {
    let document = made();
    let masts = &document["components"]["schemas"]["Boat"]["properties"]["masts"];
    assert_eq!(*masts, json!({"type": "integer", "minimum": 0}));
}

#[test]
fn a_route_lists_the_responses_of_its_kind() {
    let document = made();
    let statuses = |id: &str| -> Vec<String> {
        operation(&document, id)["responses"].as_object().unwrap().keys().cloned().collect()
    };
    let list = ["200", "400", "401", "403", "404", "429", "500", "503"];
    assert_eq!(statuses("boatList"), list);
    assert!(statuses("boatGet").contains(&"304".into()));
    for (id, more) in [("boatCreate", &["409", "413", "415"][..]), ("boatRemove", &["409", "412"])]
    {
        for status in more {
            assert!(statuses(id).contains(&status.to_string()), "{id} {status}");
        }
    }
    assert!(!statuses("boatRemove").contains(&"415".into()));
    assert!(!statuses("tideGet").contains(&"403".into()));
    for (_, operation) in operations(&document) {
        for (status, response) in operation["responses"].as_object().unwrap() {
            let response = follow(&document, response);
            assert!(response["headers"]["X-Request-Id"].is_object(), "{status}");
        }
    }
    let has = |id: &str, name: &str| parameter(&document, id, name).is_some();
    assert!(has("boatCreate", "Idempotency-Key") && !has("sessionSignOut", "Idempotency-Key"));
    assert!(has("boatChange", "If-Match") && !has("boatCreate", "If-Match"));
    assert!(has("boatGet", "If-None-Match") && !has("boatList", "If-None-Match"));
    let headers = |id: &str| &operation(&document, id)["responses"]["200"]["headers"];
    assert!(headers("boatGet")["ETag"].is_object() && headers("boatList")["ETag"].is_null());
    // An answer with a secret is not stored, so it is never replayed.
    assert!(headers("boatCreate")["Idempotency-Replayed"].is_null());
}

#[test]
fn routes_with_calls_document_their_failures() {
    let hail = |_: &View, _: &Req, _: &mut Calls| -> Result<Empty> { Err(Error::no_such("thing")) };
    let route = Route::post("/hail", MEMBER, "hail.send", op::read(op::calling(1, hail)));
    let document = document(Contents::routes(&[route]), "1.2.3");
    assert!(operation(&document, "hailSend")["responses"]["502"].is_object());
    assert!(operation(&made(), "boatCreate")["responses"]["502"].is_null());
}

#[test]
fn an_error_matches_its_schema() {
    let document = made();
    let response = &document["components"]["responses"]["Invalid"];
    let schema = &response["content"]["application/json"]["schema"];
    let whole = json!({
        "message": "title must not be empty", "code": "invalid_request", "requestId": "1",
        "issues": [{"path": "title", "message": "must not be empty"}]
    });
    assert!(satisfies(&document, schema, &whole));
    assert!(!satisfies(&document, schema, &json!({"message": "no"})));
}

#[test]
fn each_route_lists_its_policy_and_credentials() {
    let document = made();
    let both = json!([{"apiKeyHeader": []}, {"bearer": []}]);
    for (id, rule, security) in [
        ("boatList", "m", both.clone()),
        ("boatCreate", "a", both),
        ("boatChange", "sm", json!([{"bearer": []}])),
        ("boatRemove", "sa", json!([{"bearer": []}])),
        ("sessionSignOut", "s", json!([{"bearer": []}])),
        ("tideGet", "any", json!([])),
    ] {
        let operation = operation(&document, id);
        assert_eq!(operation["x-rule"], rule, "{id}");
        assert_eq!(operation["security"], security, "{id}");
    }
    let schemes = document["components"]["securitySchemes"].as_object().unwrap();
    assert!(schemes.contains_key("apiKeyHeader") && schemes.contains_key("bearer"));
    assert_eq!(operation(&document, "boatList")["tags"], json!(["fleets"]));
    assert_eq!(document["tags"][0], json!({"name": "fleets"}));
}

#[test]
fn the_table_shows_each_route_in_its_group() {
    let routes = routes();
    let table = routes_table(&routes);
    let line =
        "GET     /fleets/{fleetId}/boats/{boatId}  m    tool:read environment:read  Show a boat\n";
    assert!(table.contains(line), "{table}");
    let markdown = routes_markdown(&routes);
    assert!(markdown.contains("### fleets\n"));
    assert!(markdown.contains("| GET | `/fleets/{fleetId}/boats` | m | List the boats"));
    assert!(markdown.contains("| PUT | `/berths/{name}` | m | Keep a berth \\| for long |"));
    for route in &routes {
        assert!(table.contains(route.about) && markdown.contains(route.path));
    }
}
