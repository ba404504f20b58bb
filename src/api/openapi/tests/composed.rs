//! Schemas that no type has alone: bodies with their organization, messages of webhooks, inherited
//! descriptions.

use super::*;

#[test]
fn a_body_that_is_part_of_another_input_is_a_schema_of_its_own() {
    #[derive(Deserialize, JsonSchema)]
    #[schemars(extend("examples" = [{"boats": [{"name": "Ark"}]}]))]
    struct NewFleet {
        boats: Vec<NewBoat>,
    }
    impl Input for NewFleet {}
    let mut routes = routes();
    let fleet = op::write::<(), NewFleet, Empty>(write);
    routes.push(Route::post("/fleets", MEMBER, "fleet.create", fleet).about("Build a fleet"));
    assert_eq!(problems(Contents::routes(&routes)), Vec::<String>::new());
    let document = document(Contents::routes(&routes), "1");
    let boat = json!({"name": "Ark"});
    let with = |org: &str, mut value: Value| {
        value["orgSlug"] = json!(org);
        value
    };
    let create = body(&document, "boatCreate");
    assert_eq!(*create, json!({"$ref": "#/components/schemas/CreateBoatRequest"}));
    assert!(satisfies(&document, create, &with("acme", boat.clone())));
    let fleet = body(&document, "fleetCreate");
    assert!(satisfies(&document, fleet, &with("acme", json!({"boats": [boat]}))));
    assert!(!satisfies(&document, fleet, &with("acme", json!({"boats": [with("acme", boat)]}))));
}

#[test]
fn what_the_server_posts_is_described_with_its_signature() {
    const RANG: Webhook = Webhook {
        name: "rang",
        about: "Report a bell",
        description: "Posted when a bell rings.",
        kind: |_| schemars::json_schema!({"const": "rang"}),
        data: |generator| generator.subschema_for::<Boat>(),
    };
    let routes = routes();
    let groups = [("fleets", "Fleets of boats."), ("webhooks", "What is posted.")];
    let contents = Contents { webhooks: &[&RANG], groups: &groups, ..Contents::routes(&routes) };
    let document = document(contents, "1");
    let post = &document["webhooks"]["rang"]["post"];
    let headers = post["parameters"].as_array().unwrap().iter();
    let headers: Vec<_> = headers.map(|header| &follow(&document, header)["name"]).collect();
    assert_eq!(headers, ["webhook-id", "webhook-timestamp", "webhook-signature"]);
    let schema = &post["requestBody"]["content"]["application/json"]["schema"];
    assert_eq!(*schema, json!({"$ref": "#/components/schemas/RangWebhook"}));
    let data = &document["components"]["schemas"]["RangWebhook"]["properties"]["data"];
    assert_eq!(*data, json!({"$ref": "#/components/schemas/Boat"}));
    assert!(post["responses"]["410"].is_object());
    // Generators make a class of a tag: of the routes one, of the webhooks another.
    assert_eq!(post["tags"], json!(["webhooks"]));
    let tags = document["tags"].as_array().unwrap();
    assert_eq!(tags[0], json!({"name": "fleets", "description": "Fleets of boats."}));
    assert_eq!(tags.last(), Some(&json!({"name": "webhooks", "description": "What is posted."})));
}

#[test]
fn without_webhooks_nothing_of_them_is_in_the_document() {
    let document = made();
    assert!(document.get("webhooks").is_none());
    assert!(!document.to_string().to_lowercase().contains("webhook"), "{document}");
}

#[test]
fn an_enumeration_beside_a_list_is_a_pattern_and_a_list_is_no_set() {
    struct Cargo;
    impl JsonSchema for Cargo {
        fn schema_name() -> std::borrow::Cow<'static, str> {
            "Cargo".into()
        }
        fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
            let state = generator.subschema_for::<State>();
            schemars::json_schema!({"oneOf": [
                state,
                {"type": "array", "items": {"type": "string"}, "uniqueItems": true},
                {"type": "array", "description": "Decks.", "items": {"type": "integer"},
                    "uniqueItems": true},
            ]})
        }
    }
    #[derive(Serialize, JsonSchema)]
    struct Hold {
        cargo: Cargo,
        state: Option<State>,
    }
    impl Serialize for Cargo {
        fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
            serializer.serialize_unit()
        }
    }
    impl Output for Hold {
        fn resource(&self) -> Option<ResourceRef> {
            None
        }
    }
    let hold = Route::get("/hold", MEMBER, "hold.get", op::read::<(), (), Hold>(read));
    let routes = [hold.about("Show the hold")];
    assert_eq!(problems(Contents::routes(&routes)), Vec::<String>::new());
    let document = document(Contents::routes(&routes), "1");
    let schemas = &document["components"]["schemas"];
    let [word, list, decks] = schemas["Cargo"]["oneOf"].as_array().unwrap().as_slice() else {
        panic!("{schemas}")
    };
    assert_eq!(word["type"], "string");
    let pattern = word["pattern"].as_str().unwrap();
    assert!(["^(?:building|afloat)$", "^(?:afloat|building)$"].contains(&pattern), "{pattern}");
    let described = json!({
        "type": "array", "items": {"type": "string"}, "description": "Each item once."
    });
    assert_eq!(*list, described);
    assert_eq!(decks["description"], "Decks. Each item once.");
    // Beside null alone it stays an enumeration.
    let reference = json!({"$ref": "#/components/schemas/State"});
    let state = &schemas["Hold"]["properties"]["state"];
    assert!(state["anyOf"].as_array().unwrap().contains(&reference), "{state}");
}

#[test]
fn descriptions_are_inherited_from_related_types_and_common_names() {
    let document = made();
    let schemas = &document["components"]["schemas"];
    let about = |name: &str, field: &str| schemas[name]["properties"][field]["description"].clone();
    assert_eq!(about("CreateBoat", "name"), "What it is called.");
    assert_eq!(about("Boat", "name"), "What it is called.");
    assert_eq!(about("BoatPatch", "name"), "What it is called.");
    assert_eq!(about("Boat", "launchedAt"), Value::Null);
    assert_eq!(about("PageOfBoat", "items"), "The items of this page, in the order of the list.");
    let path = parameter(&document, "boatGet", "fleetId").unwrap();
    assert_eq!(path["description"], "The id of the fleet.");
}

#[test]
fn lists_are_pages_and_waits_can_be_streamed() {
    let document = made();
    let page = answer(&document, "boatList");
    assert_eq!(*page, json!({"$ref": "#/components/schemas/PageOfBoat"}));
    assert!(satisfies(&document, page, &json!({"items": [], "nextCursor": null})));
    assert!(!satisfies(&document, page, &json!({"items": []})));
    assert!(!satisfies(&document, page, &json!({"items": [{}], "nextCursor": null})));
    assert_eq!(answer(&document, "berthArrivalsAwait"), page);
    let content = &operation(&document, "berthArrivalsAwait")["responses"]["200"]["content"];
    assert!(content["text/event-stream"].is_object());
}
