//! What a server would refuse of a plan, found before its first step: each request is read as a server of this
//! version reads it, and each text is compiled. A server of another version decides itself.

use std::convert::Infallible;
use std::sync::Arc;

use serde_json::{Value, json};

use super::apply::{Request, request};
use super::kind::Fields;
use super::kinds::CHANNEL;
use super::plan::{Plan, Step};
use super::remote::Remote;
use super::state::{ArtifactKey, GENERIC, State, Text, VersionName, numbers};
use super::tree::Tree;
use crate::api::{RawArgs, ServerInfo};
use crate::auth::RequiredCredential;
use crate::base::{ArtifactName, Error, Keys, Range, Version};
use crate::cli::client::prompt_file::PromptFile;
use crate::cli::failure::Failure;
use crate::http::{Match, Router};
use crate::outside::Method;
use crate::resources::{self, notifications};
use crate::templates::{self, Diagnostic, Imported, compile};

/// What would be refused, each with its step.
#[derive(Default)]
pub struct Refused {
    /// Whoever asks.
    pub always: Vec<String>,
    /// By a server of this program's version.
    pub by_version: Vec<String>,
    /// Of who has no session.
    pub without_session: Vec<String>,
}

/// Returns what would be refused.
///
/// # Errors
/// If the program is faulty.
pub fn refused(
    (files, local): (&Tree, &State<Text>),
    remote: &Remote,
    plan: &Plan,
) -> Result<Refused, Failure> {
    let router = Router::new(resources::routes()).map_err(|e| Failure::Failed(e.to_string()))?;
    let expected = remote.known.expecting(local.resources.keys());
    let mut refused = Refused::default();
    for step in &plan.steps {
        let line = step.line();
        let line = line.get(2..).unwrap_or(&line);
        let mut why = match request(&expected, step) {
            // Without a session the fleets could not be read.
            Ok(Some(request)) if !remote.known.has_fleets && takes_session(&router, &request) => {
                let why = format!("{line}: it takes a session: roadstead login --email ADDRESS");
                refused.without_session.push(why);
                Vec::new()
            }
            Ok(Some(request)) => why_refused(&router, &request),
            Ok(None) => Vec::new(),
            Err(Failure::Failed(why) | Failure::Usage(why)) => {
                refused.always.push(format!("{line}: {why}"));
                Vec::new()
            }
        };
        if let Step::Create { resource, fields } = step
            && *resource.0 == CHANNEL
        {
            why.extend(why_not_valid_config(fields));
        }
        refused.by_version.extend(why.into_iter().map(|why| format!("{line}: {why}")));
        if let Step::Publish { version, text } = step {
            let problems = why_not_compiled(local, remote, version, text);
            refused.by_version.extend(at_lines(files, version, &problems));
        }
    }
    Ok(refused)
}

/// Returns what this program's version would refuse as warnings, if the server is known to be of another
/// version.
///
/// # Errors
/// It itself, otherwise.
pub fn decided_by(server: Option<&str>, refused: Vec<String>) -> Result<Vec<String>, Vec<String>> {
    let own = env!("CARGO_PKG_VERSION");
    let Some(server) = server.filter(|server| *server != own) else { return Err(refused) };
    let warning = |why: String| {
        format!("{why} (this program is {own}, the server {server}: the server decides)")
    };
    Ok(refused.into_iter().map(warning).collect())
}

/// Returns what texts to be published say that their authors may have meant otherwise.
pub fn warnings(files: &Tree, plan: &Plan) -> Vec<String> {
    let of = |step: &Step| match step {
        Step::Publish { version, text } => {
            at_lines(files, version, &templates::warnings(&text.source))
        }
        _ => Vec::new(),
    };
    plan.steps.iter().flat_map(of).collect()
}

/// What was found in the text of a version, each at its place in the file.
fn at_lines(files: &Tree, version: &VersionName, found: &[Diagnostic]) -> Vec<String> {
    if found.is_empty() {
        return Vec::new();
    }
    let file = file_of(files, version);
    let at = |found: &Diagnostic| match &file {
        Some(file) => {
            let [line, column] = [found.line, found.column].map(|number| number as usize);
            file.problem_in_text(line, column, &found.message).to_string()
        }
        None => format!("{version}: {found}"),
    };
    found.iter().map(at).collect()
}

/// Returns the file of a version, if there is one.
fn file_of(tree: &Tree, version: &VersionName) -> Option<PromptFile> {
    let VersionName { artifact: ArtifactKey { registry, is_prompt, name }, numbers: of, model } =
        version;
    let folder = if *is_prompt { "prompts" } else { "promptlets" };
    let folder = format!("registries/{registry}/{folder}/");
    let begin = format!("{folder}{name}");
    let files = tree.range(begin.clone()..).take_while(|(path, _)| path.starts_with(&begin));
    // Of which version and model it is, only the file itself says.
    let named = files.filter(|(path, _)| {
        let stem = path[folder.len()..].strip_suffix(".md");
        stem.and_then(|stem| stem.split(['@', '~']).next()) == Some(name.as_str())
    });
    let mut read = named.filter_map(|(path, text)| PromptFile::parse(path, text).ok());
    read.find(|file| {
        let version = file.version.as_deref().and_then(numbers);
        version == Some(*of) && file.model.as_deref().unwrap_or(GENERIC) == model
    })
}

/// Returns what the messages of files say that is not so: of a version that is published with another one,
/// which never changes, and of a new version whose file has kept the message of the one before.
pub fn about_messages(local: &State<Text>, remote: &Remote) -> Vec<String> {
    let mut warnings = Vec::new();
    for (version, text) in &local.versions {
        let Some(message) = &text.message else { continue };
        if let Some(row) = remote.state.versions.get(version) {
            if row.message.as_ref() != Some(message) {
                warnings.push(format!(
                    "{version}: it is published with another message, which never changes; pull \
                     brings it back"
                ));
            }
            continue;
        }
        let first = VersionName { numbers: [0; 3], model: String::new(), ..version.clone() };
        let mut before = remote.state.versions.range(first..version.clone()).rev();
        let newest = before.find(|(other, _)| other.model == version.model);
        if let Some((newest, _)) = newest.filter(|(_, row)| row.message.as_ref() == Some(message)) {
            let newest = newest.version();
            warnings.push(format!("{version}: its message is still that of {newest}"));
        }
    }
    warnings
}

/// The route of a request; none if only a newer server may know it.
fn route<'a>(router: &'a Router, request: &Request) -> Option<Match<'a>> {
    router.find(&request.method, &request.path).ok()
}

fn takes_session(router: &Router, request: &Request) -> bool {
    route(router, request)
        .is_some_and(|found| found.route.policy.credential == RequiredCredential::Session)
}

/// Why a request cannot be read.
fn why_refused(router: &Router, request: &Request) -> Vec<String> {
    let Some(Match { route, params, .. }) = route(router, request) else { return Vec::new() };
    let (origin, server) = (Arc::default(), Arc::new(ServerInfo::bare(Keys::new([0; 32]))));
    let raw = RawArgs::body(&params, &request.body, (&origin, &server));
    match route.operation.bind(request.method == Method::PATCH, route.path, raw) {
        Ok(_) => Vec::new(),
        Err(error) => reasons(&error),
    }
}

fn reasons(error: &Error) -> Vec<String> {
    match error.issues() {
        [] => vec![error.message().to_string()],
        issues => issues.iter().map(|issue| format!("{} {}", issue.path, issue.message)).collect(),
    }
}

/// Why a text does not compile there.
fn why_not_compiled(
    local: &State<Text>,
    remote: &Remote,
    version: &VersionName,
    text: &Text,
) -> Vec<Diagnostic> {
    let resolve = |name: &ArtifactName, range: &Range| {
        let of = ArtifactKey {
            registry: version.artifact.registry.clone(),
            is_prompt: false,
            name: name.to_string(),
        };
        Ok::<_, Infallible>(imported(local, remote, &of, range))
    };
    let Ok(compiled) = compile(&text.source, resolve);
    compiled.problems
}

/// Why the configuration of a channel would not be valid there.
fn why_not_valid_config(channel: &Fields) -> Vec<String> {
    let workflow = channel.get("workflow").and_then(Value::as_str).unwrap_or_default();
    let config = channel.get("config").cloned().unwrap_or_else(|| json!({}));
    let read = notifications::check_config(workflow, &config);
    read.err().map_or(Vec::new(), |error| reasons(&error))
}

/// What an import is replaced by: any text, if there is or will be a version in its range.
fn imported(
    local: &State<Text>,
    remote: &Remote,
    artifact: &ArtifactKey,
    range: &Range,
) -> Result<Imported, String> {
    let here = local.versions_from(artifact, range.from()).map(|(version, _)| version);
    let there = remote.state.versions_from(artifact, range.from()).map(|(version, _)| version);
    let found = here.chain(there).find(|version| range.to().is_none_or(|to| version.numbers < to));
    match found.and_then(|version| Version::parse(version.version()).ok()) {
        Some(version) => Ok(Imported { version, text: String::new(), variables: Vec::new() }),
        None => Err(format!("no version of {artifact} is in the range of this import")),
    }
}

#[cfg(test)]
mod tests {
    use super::super::remote::Row;
    use super::*;

    #[test]
    fn the_file_of_a_version_is_found_beside_those_of_others() {
        let prompt =
            |version: &str, more: &str| format!("+++\nversion = \"{version}\"\n{more}+++\nHi\n");
        let files = [
            ("a.md", prompt("2.0.0", "")),
            ("a@1.0.0.md", prompt("1.0.0", "")),
            ("a~m.md", prompt("2.0.0", "model = \"m\"\n")),
            ("a.b.md", prompt("2.0.0", "")),
            ("ab.md", prompt("2.0.0", "")),
        ];
        let at = |file: &str| format!("registries/main/prompts/{file}");
        let tree: Tree = files.iter().map(|(file, text)| (at(file), text.clone())).collect();
        let found = |major: u64, model: &str| {
            let artifact =
                ArtifactKey { registry: "main".into(), is_prompt: true, name: "a".into() };
            let version = VersionName { artifact, numbers: [major, 0, 0], model: model.into() };
            file_of(&tree, &version).map(|file| file.path)
        };
        assert_eq!(found(2, GENERIC), Some(at("a.md")));
        assert_eq!(found(1, GENERIC), Some(at("a@1.0.0.md")));
        assert_eq!(found(2, "m"), Some(at("a~m.md")));
        assert_eq!(found(4, GENERIC), None);
    }

    #[test]
    fn a_message_that_is_not_that_of_its_version_is_told() {
        let version = |minor| VersionName {
            artifact: ArtifactKey { registry: "main".into(), is_prompt: true, name: "a".into() },
            numbers: [1, minor, 0],
            model: "generic".into(),
        };
        let row =
            |message: Option<&str>| Row { message: message.map(Into::into), ..Row::default() };
        let text =
            |message: Option<&str>| Text { message: message.map(Into::into), ..Text::default() };
        let mut remote = Remote::default();
        remote.state.versions.insert(version(0), row(Some("First.")));
        remote.state.versions.insert(version(1), row(Some("Second.")));
        let told = |minor: u64, message: Option<&str>| {
            let mut local = State::default();
            local.versions.insert(version(minor), text(message));
            about_messages(&local, &remote).concat()
        };
        assert_eq!(
            told(2, Some("Second.")),
            "prompt main/a@1.2.0: its message is still that of 1.1.0"
        );
        assert!(told(1, Some("Another.")).contains("1.1.0: it is published with another message"));
        for (minor, message) in [(1, Some("Second.")), (1, None), (2, Some("First.")), (2, None)] {
            assert_eq!(told(minor, message), "", "{minor} {message:?}");
        }
    }

    #[test]
    fn a_server_of_another_version_decides_what_it_takes() {
        let own = env!("CARGO_PKG_VERSION");
        let refused = || vec!["agent \"a\": x is not a known field".to_string()];
        assert_eq!(decided_by(None, refused()), Err(refused()), "nobody knows its version");
        assert_eq!(decided_by(Some(own), refused()), Err(refused()));
        let warnings = decided_by(Some("99.0.0"), refused()).unwrap();
        let said = format!("(this program is {own}, the server 99.0.0: the server decides)");
        assert_eq!(warnings, [format!("{} {said}", refused()[0])]);
    }
}
