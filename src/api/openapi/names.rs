//! The names of schemas, each of which stands alone in the namespace of a client in any language.

use std::collections::BTreeMap;

/// The prefix of references to schemas.
pub const SCHEMAS: &str = "#/components/schemas/";

/// The name of the schema of an input. `NewTask` is told as `CreateTask`, since in Go `NewTask` is the
/// function that makes a `Task`. One `of_two_forms` differs from the output of the same type.
pub fn of_input(name: &str, of_two_forms: bool) -> String {
    let name = match created(name) {
        Some(noun) => format!("Create{noun}"),
        None => name.to_string(),
    };
    if of_two_forms { name + "Input" } else { name }
}

/// What a `New…` is of.
fn created(name: &str) -> Option<&str> {
    name.strip_prefix("New").filter(|noun| noun.starts_with(|c: char| c.is_ascii_uppercase()))
}

/// Returns a sentence for each name that a language would take for another: a constructor in Go, or
/// the same file where the file system ignores the case of letters.
pub fn problems<'a>(names: impl Iterator<Item = &'a String>) -> Vec<String> {
    let mut problems = Vec::new();
    let mut seen = BTreeMap::new();
    for name in names {
        if let Some(noun) = created(name) {
            problems.push(format!("{name} is what Go calls the constructor of {noun}"));
        }
        if let Some(other) = seen.insert(name.to_ascii_lowercase(), name) {
            problems.push(format!("{other} and {name} differ only in the case of letters"));
        }
    }
    problems
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_input_that_creates_says_so() {
        for (name, two, told) in [
            ("NewTask", false, "CreateTask"),
            ("NewTask", true, "CreateTaskInput"),
            ("TaskPatch", false, "TaskPatch"),
            ("ToolRef", true, "ToolRefInput"),
            ("Newsletter", false, "Newsletter"),
        ] {
            assert_eq!(of_input(name, two), told);
        }
    }

    #[test]
    fn names_that_a_language_takes_for_another_are_problems() {
        let of = |names: &[&str]| {
            let names: Vec<String> = names.iter().map(|name| name.to_string()).collect();
            problems(names.iter())
        };
        assert_eq!(of(&["Task", "CreateTask", "Newsletter"]), Vec::<String>::new());
        assert!(of(&["NewTask", "Task"])[0].contains("constructor of Task"));
        assert_eq!(
            of(&["WhoAmI", "Whoami"]),
            ["WhoAmI and Whoami differ only in the case of letters"]
        );
    }
}
