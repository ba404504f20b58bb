//! From files to the state of an organization, and back.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use super::kind::{Absent, Access, Fields, Kind, child_name};
use super::kinds::{KINDS, REGISTRY, children_of};
use super::state::{ArtifactKey, GENERIC, State, Text, VersionName, input_fields, numbers};
use super::tree::{MARK, MARK_CONTENT, Tree, file_name, is_file_name};
use crate::base::{ArtifactName, Label, Slug, Tag, Version, lines, nearest};
use crate::cli::client::prompt_file::{self, PromptFile};
use crate::cli::client::text_file::position;
use crate::cli::client::toml_json::{self, NotJson};
use crate::cli::failure::Failure;

/// Ends the name of a field that is JSON in a text, because TOML cannot express it.
const JSON_SUFFIX: &str = "Json";

/// The file of a registry, in its own folder.
const REGISTRY_FILE: &str = "registry.toml";

/// Reads the files of a directory.
///
/// # Errors
/// Usage, with every problem at its file.
pub fn parse(tree: &Tree) -> Result<State<Text>, Failure> {
    let mut parsing = Parsing { state: State::default(), problems: Vec::new() };
    if !tree.contains_key(MARK) {
        return Err(Failure::Usage(format!(
            "there is no {MARK}: it is no directory of plain files; make one with roadstead pull"
        )));
    }
    for (path, text) in tree {
        let parts: Vec<&str> = path.split('/').collect();
        let parsed = match parts[..] {
            [MARK] => parsing.mark(text),
            ["registries", slug, REGISTRY_FILE] => parsing.resource(&REGISTRY, Some(slug), text),
            ["registries", slug, folder @ ("prompts" | "promptlets"), file] => {
                parsing.prompt(path, slug, folder == "prompts", file, text)
            }
            ["registries", slug, "inputs", file] => parsing.inputs(slug, file, text),
            [folder, file] if file.ends_with(".toml") => {
                match KINDS.iter().find(|kind| kind.folder == folder) {
                    Some(kind) if **kind != REGISTRY => parsing.resource(kind, None, text),
                    _ => Err(": no such folder belongs here".into()),
                }
            }
            _ => Err(": no such file belongs here".into()),
        };
        if let Err(problem) = parsed {
            let problem = if problem.starts_with(path.as_str()) {
                problem
            } else {
                format!("{path}{problem}")
            };
            parsing.problems.push(problem);
        }
    }
    parsing.check_registries();
    if parsing.problems.is_empty() {
        return Ok(parsing.state);
    }
    Err(Failure::Usage(parsing.problems.join("\n")))
}

struct Parsing {
    state: State<Text>,
    problems: Vec<String>,
}

impl Parsing {
    fn mark(&self, text: &str) -> Result<(), String> {
        let table = table(text)?;
        match table.get("format") {
            Some(Value::Number(format)) if format.as_u64() == Some(1) => {}
            _ => {
                return Err(
                    ": is of another format; use the version of roadstead that wrote it".into()
                );
            }
        }
        no_others(&table, &["format"])
    }

    fn resource(
        &mut self,
        kind: &'static Kind,
        slug: Option<&str>,
        text: &str,
    ) -> Result<(), String> {
        let mut table = table(text)?;
        let name = match slug {
            Some(slug) => slug.to_string(),
            None => match table.remove(kind.key) {
                Some(Value::String(name)) if !name.is_empty() => name,
                _ => return Err(format!(": has no {}, which names it", kind.key)),
            },
        };
        if let Err(why) = (kind.check_name)(&name) {
            return Err(format!(": {} {name:?} {why}", kind.key));
        }
        for (child, parent) in children_of(kind) {
            if let Some(children) = table.remove(parent.field) {
                self.children(child, &name, children).map_err(|()| {
                    let form = if child.access == Access::Value { "table" } else { "list" };
                    format!(": {} must be a {form} of texts without slashes", parent.field)
                })?;
            }
        }
        let own = kind.fields.iter().map(|field| field.0);
        let parts = children_of(kind).map(|(_, parent)| parent.field);
        let key = slug.is_none().then_some(kind.key);
        no_others(&table, &key.into_iter().chain(own).chain(parts).collect::<Vec<_>>())?;
        for (field, absent) in kind.fields {
            if *absent == Absent::Null && !table.contains_key(*field) {
                table.insert((*field).to_string(), Value::Null);
            }
        }
        match self.state.resources.insert((kind, name.clone()), table) {
            None => Ok(()),
            Some(_) => Err(format!(": another file has the {} {name:?}, too", kind.name)),
        }
    }

    fn children(&mut self, kind: &'static Kind, of: &str, children: Value) -> Result<(), ()> {
        let children: Vec<(String, Fields)> = match children {
            Value::Array(names) if kind.access != Access::Value => {
                let named = |name: Value| match name {
                    Value::String(name) => Ok((name, Fields::new())),
                    _ => Err(()),
                };
                names.into_iter().map(named).collect::<Result<_, ()>>()?
            }
            Value::Object(values) if kind.access == Access::Value => {
                let valued = |(name, value): (String, Value)| match value {
                    Value::String(_) => Ok((name, Map::from_iter([("value".to_string(), value)]))),
                    _ => Err(()),
                };
                values.into_iter().map(valued).collect::<Result<_, ()>>()?
            }
            _ => return Err(()),
        };
        // Behind a slash begins the name of a child: it would be one of another parent.
        if children.iter().any(|(name, _)| name.contains('/')) {
            return Err(());
        }
        for (name, fields) in children {
            self.state.resources.insert((kind, child_name(of, &name)), fields);
        }
        Ok(())
    }

    fn prompt(
        &mut self,
        path: &str,
        registry: &str,
        is_prompt: bool,
        file: &str,
        text: &str,
    ) -> Result<(), String> {
        let stem = file.strip_suffix(".md").ok_or(": a prompt is a file NAME.md")?;
        let (before, suffix) = stem.split_once('@').map_or((stem, None), |(a, b)| (a, Some(b)));
        let (name, of_model) = before.split_once('~').map_or((before, None), |(a, b)| (a, Some(b)));
        let name = ArtifactName::parse(name)
            .map_err(|why| format!(": the name of the prompt, {name:?}, {why}"))?
            .into_string();
        let parsed = PromptFile::parse(path, text).map_err(|problem| problem.to_string())?;
        let artifact = ArtifactKey { registry: registry.into(), is_prompt, name };
        let of_type = parsed.artifact_type.as_deref();
        if of_type.is_some_and(|of_type| of_type != artifact.artifact_type()) {
            return Err(": its type is another than that of its folder".into());
        }
        let version = parsed.version.ok_or(": says no version in its front matter")?;
        let numbers = numbers(&version).ok_or(": its version is not three numbers with dots")?;
        let model = parsed.model.unwrap_or_else(|| GENERIC.into());
        if model.contains(char::is_control) {
            return Err(": its model has a line end or another control character".into());
        }
        let name = VersionName { artifact, numbers, model };
        // As it is written everywhere else: a file may have it with zeros in front.
        let version = name.version();
        if suffix.is_some_and(|suffix| Version::parse(suffix).ok().is_none_or(|of| *of != *version))
        {
            return Err(format!(
                ": behind the @ of its name belongs its version, {version}; a name has no @"
            ));
        }
        if of_model.is_some() && name.model == GENERIC {
            return Err(": behind the ~ of its name belongs its model, and it says none".into());
        }
        for label in parsed.labels {
            if let Err(why) = Label::parse(&*label) {
                return Err(format!(": the label {label:?} {why}"));
            }
            let key = (name.artifact.clone(), label);
            let before = self.state.labels.insert(key.clone(), version.clone());
            if before.is_some_and(|before| before != version) {
                return Err(format!(": another file has the label {:?}, too", key.1));
            }
        }
        if let Some(tags) = parsed.tags {
            self.tags(&name.artifact, tags)?;
        }
        let text =
            Text { source: parsed.source, metadata: parsed.metadata, message: parsed.message };
        match self.state.versions.insert(name.clone(), text) {
            None => Ok(()),
            Some(_) => Err(format!(": another file has {name}, too")),
        }
    }

    /// The inputs of a prompt: a table for each.
    fn inputs(&mut self, registry: &str, file: &str, text: &str) -> Result<(), String> {
        let stem = file.strip_suffix(".toml").ok_or(": inputs are a file NAME.toml")?;
        let name = ArtifactName::parse(stem)
            .map_err(|why| format!(": the name of the prompt, {stem:?}, {why}"))?
            .into_string();
        let of = ArtifactKey { registry: registry.into(), is_prompt: true, name };
        for (input, value) in table(text)? {
            if let Err(why) = Slug::parse(&*input) {
                return Err(format!(": the name of the input {input:?} {why}"));
            }
            let Value::Object(given) = value else {
                return Err(format!(": {input} must be a table, [{input}]"));
            };
            let mut fields = input_fields();
            for (field, value) in given {
                let Some(known) = fields.get_mut(&field) else {
                    let known = fields.keys().cloned().collect::<Vec<_>>().join(", ");
                    return Err(format!(
                        ": {input}.{field} is none of the fields of an input: {known}"
                    ));
                };
                *known = value;
            }
            self.state.inputs.insert((of.clone(), input), fields);
        }
        Ok(())
    }

    fn tags(&mut self, artifact: &ArtifactKey, tags: Vec<String>) -> Result<(), String> {
        for tag in &tags {
            Tag::parse(&**tag).map_err(|why| format!(": the tag {tag:?} {why}"))?;
        }
        let before = self.state.tags.insert(artifact.clone(), tags.clone());
        if before.is_some_and(|before| before != tags) {
            return Err(format!(": another file has other tags of {artifact}; keep one"));
        }
        Ok(())
    }

    fn check_registries(&mut self) {
        let registries = |version: &VersionName| version.artifact.registry.clone();
        let mut used: BTreeSet<String> = self.state.versions.keys().map(registries).collect();
        used.extend(self.state.inputs.keys().map(|(of, _)| of.registry.clone()));
        for slug in used {
            if !self.state.resources.contains_key(&(&REGISTRY, slug.clone())) {
                self.problems.push(format!("registries/{slug}: has no {REGISTRY_FILE}"));
            }
        }
    }
}

/// Refuses a field that is not known.
fn no_others(table: &Fields, known: &[&str]) -> Result<(), String> {
    let Some(unknown) = table.keys().find(|field| !known.contains(&field.as_str())) else {
        return Ok(());
    };
    let meant = match nearest(unknown, known.iter().copied()) {
        Some(near) => format!("; did you mean {near}?"),
        None => String::new(),
    };
    let known = known.join(", ");
    Err(format!(": {unknown} is none of the fields of this kind: {known}{meant}"))
}

/// Parses a file as an object; fields of JSON texts are what these say.
fn table(text: &str) -> Result<Fields, String> {
    let table: toml::Table = toml::from_str(text).map_err(|error| {
        let (line, column) = position(text.as_bytes(), error.span().map_or(0, |span| span.start));
        format!(":{line}:{column}: {}", error.message().trim().replace('\n', ", "))
    })?;
    let mut fields = Fields::new();
    for (name, value) in toml_json::object(table).map_err(|NotJson(why)| format!(": {why}"))? {
        match (name.strip_suffix(JSON_SUFFIX), value) {
            (Some(of), Value::String(text)) => {
                let value = serde_json::from_str(&text)
                    .map_err(|error| format!(": {name} is not JSON: {error}"))?;
                if value == Value::Null {
                    return Err(format!(": {name} is null; leave out what has no value"));
                }
                fields.insert(of.to_string(), value);
            }
            (_, value) => {
                fields.insert(name, value);
            }
        }
    }
    Ok(fields)
}

/// Returns the files of an organization.
///
/// # Errors
/// A name on the server cannot be that of a file.
pub fn to_tree(state: &State<Text>) -> Result<Tree, Failure> {
    let mut tree = Tree::from([(MARK.to_string(), MARK_CONTENT.to_string())]);
    for ((kind, name), fields) in &state.resources {
        if kind.folder.is_empty() {
            continue;
        }
        let mut fields = fields.clone();
        add_children(state, kind, name, &mut fields);
        let path = if **kind == REGISTRY {
            if !is_file_name(name) {
                return Err(not_a_name(name));
            }
            format!("registries/{name}/{REGISTRY_FILE}")
        } else {
            fields.insert(kind.key.to_string(), name.clone().into());
            let path = |file: &str| format!("{}/{file}.toml", kind.folder);
            path(&file_name(name, |file| tree.contains_key(&path(file))))
        };
        tree.insert(path, toml_json::text(&fields, JSON_SUFFIX));
    }
    for (version, text) in &state.versions {
        let path = version_path(state, version, |path| tree.contains_key(path))?;
        tree.insert(path, prompt_text(state, version, text));
    }
    for (of, fields) in input_files(state) {
        if !is_file_name(&of.name) || !is_file_name(&of.registry) {
            return Err(not_a_name(&of.name));
        }
        let path = format!("registries/{}/inputs/{}.toml", of.registry, of.name);
        tree.insert(path, toml_json::text(&fields, JSON_SUFFIX));
    }
    Ok(tree)
}

/// The inputs of each prompt that has some, without fields that say nothing.
fn input_files(state: &State<Text>) -> BTreeMap<&ArtifactKey, Fields> {
    let mut files: BTreeMap<&ArtifactKey, Fields> = BTreeMap::new();
    let absent = input_fields();
    for ((of, name), fields) in &state.inputs {
        let says = fields.iter().filter(|(field, value)| absent.get(*field) != Some(*value));
        let says: Fields = says.map(|(field, value)| (field.clone(), value.clone())).collect();
        files.entry(of).or_default().insert(name.clone(), Value::Object(says));
    }
    files
}

fn not_a_name(name: &str) -> Failure {
    Failure::Failed(format!("the server has {name:?}, which cannot be the name of a file"))
}

fn add_children(state: &State<Text>, kind: &'static Kind, name: &str, fields: &mut Fields) {
    for (child, parent) in children_of(kind) {
        let children = state.children(child, name);
        let value = if child.access == Access::Value {
            let values = children.map(|(own, fields)| (own.to_string(), fields["value"].clone()));
            Value::Object(values.collect())
        } else {
            children.map(|(own, _)| Value::from(own)).collect()
        };
        fields.insert(parent.field.to_string(), value);
    }
}

/// `NAME.md` is the highest version; `NAME~MODEL.md` that for a model, `NAME@VERSION.md` an older one.
fn version_path(
    state: &State<Text>,
    version: &VersionName,
    taken: impl Fn(&str) -> bool,
) -> Result<String, Failure> {
    let VersionName { artifact, numbers, model } = version;
    if !is_file_name(&artifact.name) || !is_file_name(&artifact.registry) {
        return Err(not_a_name(&artifact.name));
    }
    let mut others = state.versions_from(artifact, *numbers);
    let has_newer = others.any(|(other, _)| other.model == *model && other.numbers > *numbers);
    let suffix = if has_newer { format!("@{}", version.version()) } else { String::new() };
    let folder = if artifact.is_prompt { "prompts" } else { "promptlets" };
    let path = |model: &str| {
        format!("registries/{}/{folder}/{}{model}{suffix}.md", artifact.registry, artifact.name)
    };
    if model == GENERIC {
        return Ok(path(""));
    }
    let model = file_name(model, |model| taken(&path(&format!("~{model}"))));
    Ok(path(&format!("~{model}")))
}

fn prompt_text(state: &State<Text>, version: &VersionName, text: &Text) -> String {
    let mut front = BTreeMap::new();
    front.insert("version", Value::from(version.version()));
    if version.model != GENERIC {
        front.insert("model", version.model.clone().into());
    }
    // A label is on a version for all models, and so in one of its files; tags are of all versions.
    let others = state.models_of(&version.artifact, version.numbers);
    let mut models: Vec<&str> = others.map(|other| other.model.as_str()).collect();
    models.sort_by_key(|model| (*model != GENERIC, *model));
    if models.first() == Some(&version.model.as_str()) {
        let first = (version.artifact.clone(), String::new());
        let labels = state.labels.range(first..);
        let labels = labels.take_while(|((artifact, _), _)| *artifact == version.artifact);
        let here = labels.filter(|(_, at)| **at == version.version());
        let here: Vec<Value> = here.map(|((_, label), _)| label.clone().into()).collect();
        if !here.is_empty() {
            front.insert("labels", here.into());
        }
        let mut others = state.versions_from(&version.artifact, version.numbers);
        let is_highest = others.all(|(other, _)| other.numbers == version.numbers);
        if let Some(tags) = state.tags.get(&version.artifact).filter(|_| is_highest) {
            front.insert("tags", tags.clone().into());
        }
    }
    if let Some(message) = &text.message {
        front.insert("message", message.clone().into());
    }
    if !text.metadata.is_empty() {
        front.insert("metadata", Value::Object(text.metadata.clone()));
    }
    let fields: Fields = front.into_iter().map(|(name, value)| (name.to_string(), value)).collect();
    format!("{}{}\n", prompt_file::front_matter(fields), lines::published(&text.source))
}

#[cfg(test)]
mod tests {
    use super::super::tree::MARK_CONTENT;
    use super::*;

    const REGISTRY_TOML: (&str, &str) = ("registries/main/registry.toml", "name = \"Main\"");

    fn parsed(files: &[(&str, &str)]) -> Result<State<Text>, String> {
        let mark = [(MARK, MARK_CONTENT)];
        let files =
            mark.iter().chain(files).map(|(path, text)| (path.to_string(), text.to_string()));
        parse(&files.collect()).map_err(|failure| match failure {
            Failure::Usage(why) | Failure::Failed(why) => why,
        })
    }

    #[test]
    fn labels_are_on_their_version_however_its_numbers_are_written() {
        let prompt = "+++\nversion = \"01.2.00\"\nlabels = [\"production\"]\n+++\nHi\n";
        let state = parsed(&[REGISTRY_TOML, ("registries/main/prompts/a.md", prompt)]).unwrap();
        assert_eq!(state.labels.values().collect::<Vec<_>>(), ["1.2.0"]);
        let Ok(tree) = to_tree(&state) else { panic!("it has file names") };
        assert!(tree["registries/main/prompts/a.md"].contains("labels = [\"production\"]"));
    }

    #[test]
    fn tags_are_in_one_file_of_an_artifact_that_of_its_highest_version() {
        let prompt = |version: &str, more: &str| {
            format!("+++\nversion = \"{version}\"\nlabels = [\"v{version}\"]\n{more}+++\nHi\n")
        };
        let (one, two) = (prompt("1.0.0", ""), prompt("2.0.0", "tags = [\"B\", \"a\"]\n"));
        let of_model = prompt("2.0.0", "model = \"m\"\n");
        let at = |file: &str| format!("registries/main/prompts/{file}.md");
        let files = [(at("a@1.0.0"), one), (at("a"), two), (at("a~m"), of_model)];
        let files: Vec<_> = files.iter().map(|(path, text)| (&**path, &**text)).collect();
        let state = parsed(&[&[REGISTRY_TOML], &files[..]].concat()).unwrap();
        assert_eq!(state.tags.values().collect::<Vec<_>>(), [&["B", "a"]]);
        let Ok(tree) = to_tree(&state) else { panic!("it has file names") };
        let with_tags: Vec<_> = tree.iter().filter(|(_, text)| text.contains("tags")).collect();
        assert!(with_tags.len() == 1 && *with_tags[0].0 == at("a"), "{tree:?}");

        let other = prompt("1.0.0", "tags = []\n");
        let refused = parsed(&[REGISTRY_TOML, files[1], (&at("a@1.0.0"), &other)]).unwrap_err();
        assert!(refused.contains("another file has other tags of prompt main/a"), "{refused}");
        let wrong = prompt("1.0.0", "tags = [\"a,b\"]\n");
        let refused = parsed(&[REGISTRY_TOML, (&at("a"), &wrong)]).unwrap_err();
        assert!(refused.contains("the tag \"a,b\" must not contain commas"), "{refused}");
    }

    #[test]
    fn metadata_with_a_line_like_a_fence_is_written_as_a_file_that_can_be_read() {
        let prompt = "+++\nversion = \"1.0.0\"\n[metadata]\nnote = \"a\\n+++\\nb\"\n+++\nHi\n";
        let state = parsed(&[REGISTRY_TOML, ("registries/main/prompts/a.md", prompt)]).unwrap();
        let Ok(tree) = to_tree(&state) else { panic!("it has file names") };
        let Ok(again) = parse(&tree) else { panic!("{tree:?}") };
        assert_eq!(again.versions, state.versions);
    }

    #[test]
    fn names_that_the_server_would_refuse_are_refused_at_their_file() {
        let prompt = "+++\nversion = \"1.2.0\"\nlabels = [\"LABEL\"]\n+++\nHi\n";
        let at = |file: &str, label: &str| {
            let path = format!("registries/main/prompts/{file}");
            let refused = parsed(&[REGISTRY_TOML, (&path, &prompt.replace("LABEL", label))]).err();
            refused.map(|why| why.strip_prefix(&path).expect("it names the file").to_string())
        };
        for good in ["a.md", "a@1.2.0.md", "a@01.2.0.md"] {
            assert_eq!(at(good, "x"), None, "{good}");
        }
        for (file, label, why) in [
            ("\u{fc}n\u{ef}.md", "x", "must be 1 to 128"),
            ("a@b.md", "x", "belongs its version, 1.2.0"),
            ("a@1.2.1.md", "x", "belongs its version, 1.2.0"),
            ("a~gpt.md", "x", "belongs its model"),
            ("a.md", "1x", "the label \"1x\" must be"),
        ] {
            let refused = at(file, label).expect("it is refused");
            assert!(refused.contains(why), "{file}: {refused}");
        }
        for (path, text) in [
            ("environments/a.toml", "slug = \"A b\""),
            ("agents/a.toml", "stableKey = \"A\""),
            ("environments/a.toml", "slug = \"a\"\nvariables = [\"A\"]"),
            ("policies/a.toml", "name = \"a\"\nregistries = {main = \"x\"}"),
            ("registries/M/registry.toml", ""),
        ] {
            let refused = parsed(&[(path, text)]).unwrap_err();
            assert!(refused.starts_with(path), "{refused}");
        }
    }

    /// `b/c` below the policy `a` would be `c` below the policy `a/b`.
    #[test]
    fn a_name_that_would_be_below_another_parent_is_refused() {
        let policy = |name: &str, of: &str| format!("name = \"{name}\"\nregistries = [\"{of}\"]");
        assert!(parsed(&[("policies/a.toml", &policy("a/b", "c"))]).is_ok());
        let refused = parsed(&[("policies/a.toml", &policy("a", "b/c"))]).unwrap_err();
        assert_eq!(refused, "policies/a.toml: registries must be a list of texts without slashes");
    }

    #[test]
    fn a_field_that_is_not_known_is_refused_with_those_that_are() {
        let refused = parsed(&[("environments/a.toml", "slug = \"a\"\n[varables]\nA = \"b\"")]);
        let refused = refused.unwrap_err();
        assert!(refused.starts_with("environments/a.toml: varables is none of the fields"));
        assert!(
            refused.contains(": slug, name, ") && refused.contains(", variables;"),
            "{refused}"
        );
        assert!(refused.ends_with("did you mean variables?"), "{refused}");
        let mark = format!("{MARK_CONTENT}x = 1\n");
        let refused = parsed(&[(MARK, &mark)]).unwrap_err();
        assert_eq!(refused, "roadstead.toml: x is none of the fields of this kind: format");
    }

    #[test]
    fn json_that_is_null_is_refused() {
        let refused = parsed(&[("policies/a.toml", "name = \"a\"\nrulesJson = \"null\"")]);
        let expected = "policies/a.toml: rulesJson is null; leave out what has no value";
        assert_eq!(refused.unwrap_err(), expected);
    }
}
