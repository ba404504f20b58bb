//! The answers of real providers: Langfuse 3 (from its published API), Arize Phoenix 20.26 and MLflow 3
//! (recorded from running servers), and another Roadstead.

use super::super::external::PromptLookup;
use super::*;

use PromptProviderKind::*;

/// Lists all prompts, given these answers.
fn prompts(
    kind: PromptProviderKind,
    base_url: &str,
    limit: usize,
    table: &[(&str, Value)],
) -> Value {
    let found = ask(kind, base_url, from(table), |client| first(client, limit)).unwrap();
    let all: Vec<_> = found.into_iter().map(ExternalPrompt::from).collect();
    serde_json::to_value(all).unwrap()
}

/// Looks up one prompt, given these answers: its version and its text in our language.
fn prompt(
    kind: PromptProviderKind,
    base_url: &str,
    (name, version): (&str, Option<&str>),
    table: &[(&str, Value)],
) -> Result<(String, String), Box<PromptLookup>> {
    match ask(kind, base_url, from(table), |client| fetch::find(client, name, version)).unwrap() {
        PromptLookup::Found(found) => {
            assert_eq!(found.name, name);
            Ok((found.version, found.template.translated().unwrap()))
        }
        other => Err(Box::new(other)),
    }
}

#[test]
fn langfuse_defaults_to_the_production_version_or_else_the_newest() {
    let text = |version: u64, text: &str, labels: Value| {
        json!({
            "id": "cmxx", "createdAt": "2026-05-01T10:00:00.000Z",
            "updatedAt": "2026-05-02T10:00:00.000Z", "projectId": "p", "createdBy": "API",
            "prompt": text, "name": "greet/warm", "version": version, "type": "text",
            "isActive": null, "config": {}, "tags": [], "labels": labels, "commitMessage": null,
            "resolutionGraph": null,
        })
    };
    let messages = json!([
        {"type": "chatmessage", "role": "system", "content": "Be {{tone}}"},
        {"type": "placeholder", "name": "history"},
    ]);
    let table = [
        (
            "/api/public/v2/prompts?page=1&limit=50",
            json!({
                "data": [
                    {"name": "greet/warm", "type": "text", "versions": [1, 2, 3], "tags": [],
                        "labels": ["production", "latest"], "lastConfig": {},
                        "lastUpdatedAt": "2026-05-02T10:00:00.000Z"},
                    {"name": "new one", "versions": [1], "labels": ["latest"], "tags": [],
                        "lastUpdatedAt": "2026-05-02T10:00:00.000Z"},
                    {"name": "gone", "versions": [1], "labels": [], "tags": [],
                        "lastUpdatedAt": "2026-05-02T10:00:00.000Z"},
                ],
                "meta": {"page": 1, "limit": 50, "totalPages": 1, "totalItems": 3},
            }),
        ),
        ("/api/public/v2/prompts/greet%2Fwarm", text(2, "Hi {{name}}", json!(["production"]))),
        ("/api/public/v2/prompts/greet%2Fwarm?version=1", text(1, "Hi", json!([]))),
        (
            "/api/public/v2/prompts/new%20one?label=latest",
            json!({"name": "new one", "version": 1, "type": "chat", "prompt": messages,
                "labels": ["latest"], "config": {}, "tags": []}),
        ),
    ];
    let expected = json!([
        {"name": "greet/warm", "version": "2", "template": "Hi {{name}}", "format": "text",
            "labels": ["production"], "updatedAt": "2026-05-02T10:00:00.000Z"},
        {"name": "new one", "version": "1", "template": messages.to_string(), "format": "chat",
            "labels": ["latest"], "updatedAt": "2026-05-02T10:00:00.000Z"},
    ]);
    for base in ["https://langfuse.test", "https://langfuse.test/", "https://langfuse.test/#x"] {
        assert_eq!(prompts(Langfuse, base, 50, &table), expected, "{base}");
    }
    let one = |name, version| prompt(Langfuse, LANGFUSE, (name, version), &table);
    assert_eq!(one("greet/warm", None), Ok(("2".into(), "Hi {{name}}".into())));
    assert_eq!(one("greet/warm", Some("1")), Ok(("1".into(), "Hi".into())));
    assert_eq!(one("new one", None), Ok(("1".into(), messages.to_string())));
    for (name, version) in [("gone", None), ("greet/warm", Some("9")), ("greet/warm", Some("x"))] {
        assert_eq!(one(name, version), Err(Box::new(PromptLookup::Missing)));
    }
}

#[test]
fn a_list_of_langfuse_without_a_page_count_is_complete() {
    let table = [
        ("/api/public/v2/prompts?page=1&limit=50", json!({"data": [{"name": "greet"}]})),
        ("/api/public/v2/prompts/greet", json!({"version": 1, "prompt": "Hi"})),
    ];
    let expected = json!([{"name": "greet", "version": "1", "template": "Hi", "format": "text",
        "labels": [], "updatedAt": null}]);
    assert_eq!(prompts(Langfuse, LANGFUSE, 50, &table), expected);
}

#[test]
fn langfuse_is_read_in_pages_of_100() {
    let answer = |path: &str| {
        let page = |page: usize| {
            let names = (0..100).map(|i| json!({"name": format!("p{page}-{i}")}));
            let data: Vec<_> = names.collect();
            answered(200, json!({"data": data, "meta": {"totalPages": 99}}).to_string())
        };
        match path {
            "/api/public/v2/prompts?page=1&limit=100" => page(1),
            "/api/public/v2/prompts?page=2&limit=100" => page(2),
            path if path.contains('?') => panic!("{path}"),
            _ => answered(200, json!({"version": 7, "prompt": "t"}).to_string()),
        }
    };
    let found = ask(Langfuse, LANGFUSE, answer, |client| first(client, 150)).unwrap();
    assert_eq!((found.len(), &*found[149].name), (150, "p2-49"));
}

#[test]
fn phoenix_defaults_to_the_newest_version_with_its_tags() {
    let version = |id: &str, format: &str, template: Value| {
        json!({
            "description": "", "model_provider": "OPENAI", "model_name": "gpt-4o",
            "template": template, "template_type": "CHAT", "template_format": format,
            "invocation_parameters": {"type": "openai", "openai": {}}, "id": id,
        })
    };
    let messages = json!([
        {"role": "system", "content": "You are {tone}"},
        {"role": "user", "content": [{"type": "text", "text": "Hi {name}"}]},
    ]);
    let chat = json!({"type": "chat", "messages": messages});
    let first = version(
        "UHJvbXB0VmVyc2lvbjox",
        "MUSTACHE",
        json!({
            "type": "chat", "messages": [{"role": "user", "content": "Hi {{name}}"}],
        }),
    );
    let second = version("UHJvbXB0VmVyc2lvbjoy", "F_STRING", chat);
    let text = version("UHJvbXB0VmVyc2lvbjoz", "NONE", json!({"type": "string", "template": "{{"}));
    let table = [
        (
            "/v1/prompts?limit=50",
            json!({
                "data": [
                    {"name": "greet", "description": "d", "source_prompt_id": null, "metadata": {},
                        "id": "UHJvbXB0OjE="},
                    {"name": "empty", "description": null, "source_prompt_id": null,
                        "metadata": {}, "id": "UHJvbXB0OjI="},
                    {"name": "text", "description": null, "source_prompt_id": null, "metadata": {},
                        "id": "UHJvbXB0OjM="},
                ],
                "next_cursor": null,
            }),
        ),
        ("/v1/prompts/greet/latest", json!({"data": second})),
        ("/v1/prompts/UHJvbXB0OjE%3D/latest", json!({"data": second})),
        ("/v1/prompts/greet/versions?limit=100", json!({"data": [second], "next_cursor": "abc"})),
        (
            "/v1/prompts/greet/versions?limit=100&cursor=abc",
            json!({"data": [first], "next_cursor": null}),
        ),
        ("/v1/prompts/empty/versions?limit=100", json!({"data": [], "next_cursor": null})),
        ("/v1/prompts/text/latest", json!({"data": text})),
        (
            "/v1/prompt_versions/UHJvbXB0VmVyc2lvbjoy/tags",
            json!({"data": [{"name": "production", "id": "UHJvbXB0VmVyc2lvblRhZzox"}],
                "next_cursor": null}),
        ),
        ("/v1/prompt_versions/UHJvbXB0VmVyc2lvbjoz/tags", json!({"data": [], "next_cursor": null})),
    ];
    let base = "http://phoenix.test:6006";
    let expected = json!([
        {"name": "greet", "version": "UHJvbXB0VmVyc2lvbjoy", "template": messages.to_string(),
            "format": "chat", "labels": ["production"], "updatedAt": null},
        {"name": "text", "version": "UHJvbXB0VmVyc2lvbjoz", "template": "{{", "format": "text",
            "labels": [], "updatedAt": null},
    ]);
    assert_eq!(prompts(Phoenix, base, 50, &table), expected);
    let one = |name, version| prompt(Phoenix, base, (name, version), &table);
    let ours = r#"[{"role":"system","content":"You are {{tone}}"},{"role":"user","content":[{"type":"text","text":"Hi {{name}}"}]}]"#;
    assert_eq!(one("greet", None), Ok(("UHJvbXB0VmVyc2lvbjoy".into(), ours.into())));
    let ours = r#"[{"role":"user","content":"Hi {{name}}"}]"#;
    let first = Some("UHJvbXB0VmVyc2lvbjox");
    assert_eq!(one("greet", first), Ok(("UHJvbXB0VmVyc2lvbjox".into(), ours.into())));
    assert_eq!(one("text", None).unwrap().1, r"\{{");
    for (name, version) in [("empty", None), ("empty", first), ("UHJvbXB0OjE=", None)] {
        assert_eq!(one(name, version), Err(Box::new(PromptLookup::Missing)));
    }
}

#[test]
fn texts_of_mlflow_are_in_tags_of_versions() {
    let tag = |key: &str, value: &str| json!({"key": key, "value": value});
    let version = |number: &str, kind: &str, text: &str| {
        json!({
            "name": "greet", "version": number, "creation_timestamp": 1_795_297_477_350_i64,
            "last_updated_timestamp": 1_795_297_477_350_i64, "current_stage": "None",
            "description": "", "source": "dummy-source", "run_id": "", "status": "READY",
            "tags": [tag("mlflow.prompt.is_prompt", "true"), tag("_mlflow_prompt_type", kind),
                tag("mlflow.prompt.text", text)],
            "run_link": "",
        })
    };
    let messages = r#"[{"role": "system", "content": "be {{tone}}"}]"#;
    let search = "/api/2.0/mlflow/model-versions/search?filter=name+%3D+%27NAME%27+AND+\
                  tags.%60mlflow.prompt.is_prompt%60+%3D+%27true%27&max_results=1&\
                  order_by=version_number+DESC";
    let of = |name: &str| search.replace("NAME", name);
    let (greet, chat, empty) = (of("greet"), of("chat"), of("empty"));
    let table = [
        (
            "/api/2.0/mlflow/registered-models/search?filter=tags.%60mlflow.prompt.is_prompt%60+\
             %3D+%27true%27&max_results=50",
            json!({"registered_models": [
                {"name": "greet", "aliases": [{"alias": "production", "version": "1"},
                    {"alias": "best", "version": "2"}], "tags": []},
                {"name": "chat", "tags": []},
                {"name": "empty"},
            ]}),
        ),
        (
            &*greet,
            json!({"model_versions": [version("1", "text", "Hi"),
                version("2", "text", "Hello {{ name }}")],
                "next_page_token": "eyJvZmZzZXQiOiAxfQ=="}),
        ),
        (&*chat, json!({"model_versions": [version("1", "chat", messages)]})),
        (&*empty, json!({})),
        (
            "/api/2.0/mlflow/model-versions/get?name=greet&version=1",
            json!({"model_version": version("1", "text", "Hi {{name}}")}),
        ),
        (
            "/api/2.0/mlflow/model-versions/get?name=model&version=1",
            json!({"model_version": {"name": "model", "version": "1"}}),
        ),
    ];
    let base = "http://mlflow.test:5000";
    let at = "2026-11-21T21:44:37.350Z";
    let expected = json!([
        {"name": "greet", "version": "2", "template": "Hello {{ name }}", "format": "text",
            "labels": ["best"], "updatedAt": at},
        {"name": "chat", "version": "1", "format": "chat", "labels": [], "updatedAt": at,
            "template": r#"[{"role":"system","content":"be {{tone}}"}]"#},
    ]);
    assert_eq!(prompts(Mlflow, base, 50, &table), expected);
    let one = |name, version| prompt(Mlflow, base, (name, version), &table);
    assert_eq!(one("greet", None), Ok(("2".into(), "Hello {{name}}".into())));
    assert_eq!(one("greet", Some("1")), Ok(("1".into(), "Hi {{name}}".into())));
    for (name, version) in [
        ("empty", None),
        ("greet", Some("9")),
        ("greet", Some("x")),
        ("model", Some("1")),
        ("' OR name != '", None),
    ] {
        assert_eq!(one(name, version), Err(Box::new(PromptLookup::Missing)), "{name}");
    }
}

#[test]
fn another_roadstead_is_searched_in_the_registries_of_one_organization() {
    let registries = json!({"items": [{"id": "r1", "ref": "acme/one"}, {"id": "r2"}],
        "nextCursor": null});
    let artifact = |name: &str| {
        json!({"artifactType": "prompt", "name": name,
        "latestVersion": "2.0.0", "labels": {"prod": "2.0.0", "old": "1.0.0"},
        "updatedAt": "2026-05-02T10:00:00.000Z"})
    };
    let content = |version: &str, compiled: &str| {
        json!({"version": version,
        "source": "{{ import \"tone\" }}", "compiled": compiled, "model": "generic"})
    };
    let contents = "/api/registries/artifact-versions/content";
    let artifacts = "/api/registries/artifacts";
    let path = |path: &str, query: &str| format!("{path}?{query}");
    let table = [
        ("/api/registries?orgSlug=acme&limit=200".into(), registries),
        (
            "/api/registries?orgSlug=other&limit=200".into(),
            json!({"items": [{"id": "r2"}],
            "nextCursor": null}),
        ),
        (
            path(artifacts, "registryRef=r1&artifactType=prompt&limit=200"),
            json!({"items": [artifact("greet")], "nextCursor": "c"}),
        ),
        (
            path(artifacts, "registryRef=r1&artifactType=prompt&limit=200&cursor=c"),
            json!({"items": [artifact("both"), artifact("special")], "nextCursor": null}),
        ),
        (
            path(artifacts, "registryRef=r2&artifactType=prompt&limit=200"),
            json!({"items": [artifact("both")], "nextCursor": null}),
        ),
        (path(contents, "registryRef=r1&promptName=greet"), content("2.0.0", "Be kind")),
        (path(contents, "registryRef=r1&promptName=greet&version=1.0.0"), content("1.0.0", "Be")),
        (path(contents, "registryRef=r1&promptName=both"), content("2.0.0", "one")),
        (path(contents, "registryRef=r2&promptName=both"), content("2.0.0", "two")),
        (path(contents, "registryRef=acme%2Fone&promptName=both"), content("2.0.0", "one")),
    ];
    let table: Vec<_> = table.iter().map(|(path, body)| (path.as_str(), body.clone())).collect();
    let found = |name: &str, text: &str| {
        json!({"name": name, "version": "2.0.0",
        "template": text, "format": "text", "labels": ["prod"],
        "updatedAt": "2026-05-02T10:00:00.000Z"})
    };
    let expected = json!([found("greet", "Be kind"), found("both", "one"), found("both", "two")]);
    for base in ["https://there.test/api", "https://there.test/"] {
        assert_eq!(prompts(Roadstead, base, 50, &table), expected, "{base}");
    }
    let other = prompts(Roadstead, "https://there.test/api/?orgSlug=other", 50, &table);
    assert_eq!(other, json!([expected[2]]));
    let first = prompts(Roadstead, "https://there.test/api", 1, &table);
    assert_eq!(first, json!([expected[0]]));

    let base = "https://there.test/api";
    let one = |name, version| prompt(Roadstead, base, (name, version), &table);
    assert_eq!(one("greet", None), Ok(("2.0.0".into(), "Be kind".into())));
    assert_eq!(one("greet", Some("1.0.0")), Ok(("1.0.0".into(), "Be".into())));
    assert_eq!(one("both", None), Err(Box::new(PromptLookup::Several)));
    for (name, version) in [("gone", None), ("greet", Some("prod")), ("no name", None)] {
        assert_eq!(one(name, version), Err(Box::new(PromptLookup::Missing)));
    }
    let base = "https://there.test/api?registryRef=acme%2Fone";
    let one = prompt(Roadstead, base, ("both", None), &table);
    assert_eq!(one, Ok(("2.0.0".into(), "one".into())));
}

#[test]
fn http_requests_the_list_itself() {
    let items = json!([
        {"name": "greet", "version": "3", "template": "Hi {{name}}", "format": "text",
            "labels": ["a"], "updatedAt": "2026-05-02T10:00:00+02:00"},
        {"name": "greet", "version": "2", "template": "Hello", "format": "text", "labels": [],
            "updatedAt": null},
        {"name": "chat", "version": "x", "template": "[]", "format": "chat", "labels": null,
            "more": {"of": "it"}},
    ]);
    let table = [("/list.json?a=b%20c", json!({"items": items, "nextCursor": null}))];
    let base = "https://there.test/list.json?a=b%20c#here";
    let expected = json!([
        {"name": "greet", "version": "3", "template": "Hi {{name}}", "format": "text",
            "labels": ["a"], "updatedAt": "2026-05-02T08:00:00.000Z"},
        items[1],
        {"name": "chat", "version": "x", "template": "[]", "format": "chat", "labels": [],
            "updatedAt": null},
    ]);
    assert_eq!(prompts(Http, base, 50, &table), expected);
    assert_eq!(prompts(Http, base, 1, &table), json!([expected[0]]));
    let one = |name, version| prompt(Http, base, (name, version), &table);
    assert_eq!(one("greet", None), Ok(("3".into(), "Hi {{name}}".into())));
    assert_eq!(one("greet", Some("2")), Ok(("2".into(), "Hello".into())));
    assert_eq!(one("greet", Some("9")), Err(Box::new(PromptLookup::Missing)));
    assert_eq!(one("gone", None), Err(Box::new(PromptLookup::Missing)));
}

#[test]
fn the_query_of_a_base_url_and_the_credentials_are_sent() {
    let mut calls = Calls::default();
    let base = "https://there.test/mlflow/?tenant=a";
    let authorization = Some("Bearer sesame".to_string());
    let mut client = ProviderClient::new(Mlflow, base, authorization, "acme", &mut calls);
    assert_eq!(fetch::find(&mut client, "greet", Some("1")).unwrap(), PromptLookup::Pending);
    let asked = calls.asked();
    let expected = "https://there.test/mlflow/api/2.0/mlflow/model-versions/get?tenant=a&name=greet\
                    &version=1";
    assert_eq!((asked.len(), &*asked[0].url), (1, expected));
    let field = ("authorization".to_string(), "Bearer sesame".to_string());
    assert!(asked[0].headers.contains(&field));
}

#[test]
fn an_endless_list_is_bounded() {
    for kind in [Langfuse, Phoenix, Mlflow, Roadstead] {
        let answer = |_: &str| {
            answered(
                200,
                r#"{
                "data": [], "meta": {"totalPages": 9000000000}, "next_cursor": "a",
                "registered_models": [], "next_page_token": "a", "items": [], "nextCursor": "a"
            }"#,
            )
        };
        let found = ask(kind, "https://there.test", answer, |client| first(client, 50)).unwrap();
        assert_eq!(found, []);
    }
}
