//! How programs read a version: one request, as a command of curl, in Python, in TypeScript, and by the
//! command line.
//!
//! Names of artifacts, labels and registries need no escaping, but a model may be any text.

use serde_json::to_string;

use super::place::Place;
use super::visit::Visit;

/// What a page shows of it. Server and key are in the environment, under the names that the command
/// line knows.
pub struct Reading {
    /// Sets the environment, in a shell.
    pub setup: String,
    /// Each language with its text.
    pub ways: [(&'static str, String); 4],
    /// The page of API keys.
    pub keys: String,
}

impl Reading {
    /// How a version is read: by a label or number, or else the newest. `model` is what its text is for, if
    /// that is not every model.
    pub fn of(visit: &Visit, place: &Place, version: Option<&str>, model: Option<&str>) -> Self {
        let registry = format!("{}/{}", visit.member().org_slug, place.registry);
        let mut query = vec![("registryRef", registry.as_str()), ("promptName", &place.name)];
        // A prompt is what is read unless something else is said.
        query.extend((place.kind != "prompt").then_some(("artifactType", place.kind)));
        query.extend(version.map(|version| ("version", version)));
        query.extend(model.map(|model| ("model", model)));
        Reading {
            setup: setup(&visit.api.calls.origin.link_base),
            ways: [
                ("curl", curl(&query)),
                ("Python", python(&query)),
                ("TypeScript", typescript(&query)),
                ("Command line", command(&query)),
            ],
            keys: visit.in_org("/settings/keys"),
        }
    }
}

/// A word of a shell's command.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

fn setup(address: &str) -> String {
    // Whoever asks by a name that is not known to be the server's own knows it best.
    let address = if address.is_empty() { "https://…" } else { address };
    format!("export ROADSTEAD_URL={} ROADSTEAD_API_KEY='rsk_…'", quoted(address))
}

fn curl(query: &[(&str, &str)]) -> String {
    let fields: Vec<_> = query
        .iter()
        .map(|(name, value)| format!("  --data-urlencode {}", quoted(&format!("{name}={value}"))))
        .collect();
    format!(
        "curl -sS --fail-with-body -H \"X-API-Key: $ROADSTEAD_API_KEY\" \\\n  \
         --get \"$ROADSTEAD_URL/api/registries/artifact-versions/content\" \\\n{}",
        fields.join(" \\\n")
    )
}

/// A text in quotes: what JSON has for it means the same in Python and in TypeScript.
fn literal(text: &str) -> String {
    to_string(text).unwrap_or_default()
}

/// The members of a dictionary or an object, a line each.
fn members(query: &[(&str, &str)], name: fn(&str) -> String) -> String {
    query.iter().map(|(key, value)| format!("    {}: {},\n", name(key), literal(value))).collect()
}

fn python(query: &[(&str, &str)]) -> String {
    format!(
        "import json, os\n\
         from urllib.parse import urlencode\n\
         from urllib.request import Request, urlopen\n\n\
         query = urlencode({{\n{}}})\n\
         request = Request(\n    \
             os.environ[\"ROADSTEAD_URL\"] + \"/api/registries/artifact-versions/content?\" + query,\n    \
             headers={{\"X-API-Key\": os.environ[\"ROADSTEAD_API_KEY\"]}},\n\
         )\n\
         with urlopen(request) as answer:\n    \
             prompt = json.load(answer)[\"compiled\"]\n\
         print(prompt)",
        members(query, literal)
    )
}

fn typescript(query: &[(&str, &str)]) -> String {
    format!(
        "const query = new URLSearchParams({{\n{}}});\n\
         const answer = await fetch(\n    \
             `${{process.env.ROADSTEAD_URL}}/api/registries/artifact-versions/content?${{query}}`,\n    \
             {{ headers: {{ \"X-API-Key\": process.env.ROADSTEAD_API_KEY ?? \"\" }} }},\n\
         );\n\
         const text = await answer.text();\n\
         if (!answer.ok) throw new Error(text);\n\
         const prompt = JSON.parse(text).compiled;\n\
         console.log(prompt);",
        members(query, str::to_owned)
    )
}

fn command(query: &[(&str, &str)]) -> String {
    let value =
        |name: &str| query.iter().find(|(known, _)| *known == name).map(|(_, value)| *value);
    let registry = value("registryRef").unwrap_or_default();
    let name = value("promptName").unwrap_or_default();
    let version = value("version").map(|version| format!("@{version}")).unwrap_or_default();
    let mut command =
        format!("roadstead prompt get {}", quoted(&format!("{registry}/{name}{version}")));
    for (flag, field) in [("--type", "artifactType"), ("--model", "model")] {
        if let Some(value) = value(field) {
            // With an equals sign, since a value may begin with a dash.
            command.push_str(&format!(" {flag}={}", quoted(value)));
        }
    }
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_language_has_its_own_way_to_write_any_model() {
        let query = [("registryRef", "acme/main"), ("promptName", "notes"), ("version", "next")];
        let query = [&query[..], &[("model", "it's \"a\" $b\\")]].concat();
        assert!(curl(&query).ends_with(r#"--data-urlencode 'model=it'\''s "a" $b\'"#));
        assert_eq!(
            command(&query),
            r#"roadstead prompt get 'acme/main/notes@next' --model='it'\''s "a" $b\'"#
        );
        let literal = r#""it's \"a\" $b\\","#;
        assert!(python(&query).contains(&format!("\"model\": {literal}")));
        assert!(typescript(&query).contains(&format!("model: {literal}")));
    }

    #[test]
    fn the_newest_version_is_read_where_none_is_named() {
        let query = [("registryRef", "acme/main"), ("promptName", "notes")];
        assert_eq!(command(&query), "roadstead prompt get 'acme/main/notes'");
        assert!(!curl(&query).contains("version="));
        assert_eq!(setup(""), "export ROADSTEAD_URL='https://…' ROADSTEAD_API_KEY='rsk_…'");
    }
}
