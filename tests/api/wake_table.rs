//! The table of wakes, walked: every request that changes something in a team is made, and wakes whom the
//! reference names and nobody else (reference: teams-and-wakes, "Whom each change wakes").

mod cases;
mod stage;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use roadstead::api::{Method, Route};

use self::cases::CASES;
use self::stage::{Stage, World};
use crate::routes::all_routes;
use crate::schema;

/// A request, and whom it wakes.
pub struct Case {
    /// As in the table: `POST /teams/{teamId}/tasks`.
    request: &'static str,
    /// What the table says of it in this case, who and which wake; nothing: it wakes nobody.
    lines: &'static [(&'static str, &'static str)],
    /// Whether time passes in it.
    has_clock: bool,
    /// Prepares it, and makes the request by [`Stage::ask`].
    run: fn(&mut Stage<'_>),
}

/// How a case is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Variant {
    Plain,
    /// The request acts for whom this line of the case would wake.
    ActingFor(usize),
    /// The team has no Scrum Master.
    WithoutScrumMaster,
}

/// A line of the table without its condition.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Line {
    request: String,
    who: String,
    wake: String,
}

impl Line {
    fn new(request: &str, who: &str, wake: &str) -> Self {
        Line { request: request.into(), who: who.into(), wake: wake.into() }
    }
}

/// A cell that stands for nobody.
const NOBODY: &str = "—";

// ── The reference ────────────────────────────────────────────────────────────

/// The section of the reference that has the table.
fn section() -> String {
    let page = fs::read_to_string("docs/reference/teams-and-wakes.md").unwrap();
    let section = page.split("\n## Whom each change wakes\n").nth(1).unwrap();
    section.split("\n## ").next().unwrap().to_string()
}

/// The requests that the first cell of a row names: `POST /a, /b; PATCH, DELETE /c`, paths in backquotes.
fn requests(cell: &str) -> Vec<String> {
    let (mut found, mut methods, mut is_new) = (Vec::new(), Vec::new(), true);
    for word in cell.split_whitespace().map(|word| word.trim_end_matches([',', ';'])) {
        match word.strip_prefix('`').and_then(|word| word.strip_suffix('`')) {
            Some(path) => {
                is_new = true;
                found.extend(methods.iter().map(|method| format!("{method} {path}")));
            }
            None => {
                if std::mem::take(&mut is_new) {
                    methods.clear();
                }
                methods.push(word);
            }
        }
    }
    found
}

/// The lines of the table, one for each request of a row.
fn table(section: &str) -> Vec<Line> {
    let rows = section.lines().filter(|line| line.starts_with("| "));
    let mut lines = Vec::new();
    for row in rows.filter(|row| !row.starts_with("| Request ")) {
        let cells: Vec<&str> = row.trim_matches('|').split('|').map(str::trim).collect();
        let [first, who, wake, _] = cells[..] else { panic!("not four cells: {row}") };
        let of_row = requests(first);
        assert!(!of_row.is_empty(), "no request: {row}");
        let wake = wake.trim_matches('`');
        lines.extend(of_row.iter().map(|request| Line::new(request, who, wake)));
    }
    lines
}

/// Those who may be woken by a line, of whom the first that there is is.
fn alternatives(who: &str) -> impl Iterator<Item = &str> {
    who.split(", else ")
}

/// The requests that change something in a team.
fn changing() -> BTreeSet<String> {
    let routes = all_routes().into_iter().filter(|route| {
        let of_agent = ["/agents/{stableKey}/pause", "/agents/{stableKey}/resume"];
        let is_of_team = ["/teams", "/exchange/"].iter().any(|start| route.path.starts_with(start));
        route.method != Method::Get && (is_of_team || of_agent.contains(&route.path))
    });
    routes.map(|route| named(&route)).collect()
}

/// A route as the table names it.
fn named(route: &Route) -> String {
    format!("{} {}", route.method.as_str(), route.path)
}

/// Fails unless these are the requests that change something in a team.
#[track_caller]
fn assert_all_of_a_team(what: &str, requests: &BTreeSet<String>) {
    let changing = changing();
    let missed: Vec<_> = changing.difference(requests).collect();
    assert!(missed.is_empty(), "none of these {what}: {missed:?}");
    let unknown: Vec<_> = requests.difference(&changing).collect();
    assert!(unknown.is_empty(), "each {what}, and changes nothing in a team: {unknown:?}");
}

#[test]
fn each_request_that_changes_something_in_a_team_has_its_lines_in_words_that_are_explained() {
    let section = section();
    let lines = table(&section);
    assert_all_of_a_team("has a line", &lines.iter().map(|line| line.request.clone()).collect());
    let mut of_request: BTreeMap<&str, Vec<&Line>> = BTreeMap::new();
    for line in &lines {
        of_request.entry(&line.request).or_default().push(line);
        let is_nobody = line.who == NOBODY;
        assert_eq!(is_nobody, line.wake == NOBODY, "{line:?}");
        for who in alternatives(&line.who).filter(|_| !is_nobody) {
            assert!(section.contains(&format!("\n- *{who}*: ")), "who is {who}? {line:?}");
        }
        let is_new = line.wake.contains('_');
        let is_known = is_nobody || is_new || section.contains(&format!("*{}*", line.wake));
        assert!(is_known, "what wake is that? {line:?}");
    }
    for (request, lines) in of_request {
        let distinct: BTreeSet<_> = lines.iter().collect();
        assert_eq!(distinct.len(), lines.len(), "{request} has a line twice");
        let has_nobody = lines.iter().any(|line| line.who == NOBODY);
        assert!(lines.len() == 1 || !has_nobody, "{request} wakes somebody, or nobody");
    }
}

#[test]
fn the_section_of_the_table_names_each_reason() {
    let (section, enums) = (section(), fs::read_to_string("tests/golden/enums.txt").unwrap());
    let reasons = enums.lines().filter_map(|line| line.strip_prefix("WakeReason."));
    let reasons: BTreeSet<_> =
        reasons.map(|reason| snake_case(reason.split(' ').next().unwrap())).collect();
    assert!(reasons.contains("task_assigned"), "{reasons:?}");
    for reason in &reasons {
        assert!(section.contains(&format!("`{reason}`")), "{reason} is missing");
    }
    for line in table(&section).iter().filter(|line| line.wake.contains('_')) {
        assert!(reasons.contains(&line.wake), "{line:?} is no reason");
    }
}

fn snake_case(name: &str) -> String {
    let mut snake = String::new();
    for letter in name.chars() {
        if letter.is_uppercase() && !snake.is_empty() {
            snake.push('_');
        }
        snake.extend(letter.to_lowercase());
    }
    snake
}

// ── The walk ─────────────────────────────────────────────────────────────────

/// The requests that can say that an agent acts.
fn with_actor() -> BTreeSet<String> {
    let takes_it =
        |route: &Route| schema::inputs(route).iter().any(|(name, _)| name == "fromAgentId");
    all_routes().iter().filter(|route| takes_it(route)).map(named).collect()
}

/// The ways in which a case is run.
fn variants(case: &Case, with_actor: &BTreeSet<String>) -> Vec<Variant> {
    let mut variants = vec![Variant::Plain];
    if with_actor.contains(case.request) {
        variants.extend((0..case.lines.len()).map(Variant::ActingFor));
    }
    if case.lines.iter().any(|(who, _)| who.contains("Scrum Master")) {
        variants.push(Variant::WithoutScrumMaster);
    }
    variants
}

/// Whom the lines of a case wake on a stage, and by which wake. Notes each alternative that there was.
fn expected(
    case: &Case,
    stage: &Stage<'_>,
    walked: &mut BTreeSet<Line>,
) -> BTreeSet<(String, String)> {
    let mut expected = BTreeSet::new();
    for (who, wake) in case.lines {
        let Some(role) = alternatives(who).find(|role| !stage.agents(role).is_empty()) else {
            continue;
        };
        walked.insert(Line::new(case.request, role, wake));
        for agent in stage.agents(role) {
            // It hears that what it waited for is done, also if it has done that itself.
            let is_own = stage.acting() == Some(agent) && !who.starts_with("Waiting assignee");
            if !is_own {
                expected.insert((stage.name(agent), wake.to_string()));
            }
        }
    }
    expected
}

#[test]
fn each_request_wakes_whom_its_lines_name_and_nobody_else() {
    let (world, lines) = (World::new(), table(&section()));
    let (mut walked, mut wrong, mut runs) = (BTreeSet::new(), Vec::new(), 0);
    let (mut made, with_actor) = (BTreeSet::new(), with_actor());
    for (number, case) in CASES.iter().copied().flatten().enumerate() {
        let title = format!("case {number}, {} {:?}", case.request, case.lines);
        for (who, wake) in case.lines {
            let line = Line::new(case.request, who, wake);
            assert!(lines.contains(&line), "{title}: the table does not have this line");
        }
        made.insert(case.request.to_string());
        for variant in variants(case, &with_actor) {
            let mut stage = Stage::new(&world, case, variant);
            (case.run)(&mut stage);
            let Some(woken) = stage.woken() else { panic!("{title}: it asks for nothing") };
            let expected = expected(case, &stage, &mut walked);
            if *woken != expected {
                wrong.push(format!("{title}, {variant:?}: {woken:?}, not {expected:?}"));
            }
            runs += 1;
        }
    }
    assert!(wrong.is_empty(), "{} of {runs}:\n{}", wrong.len(), wrong.join("\n"));
    assert_all_of_a_team("is walked", &made);
    let is_walked = |line: &Line| {
        let mut roles = alternatives(&line.who);
        line.who == NOBODY
            || roles.all(|role| walked.contains(&Line::new(&line.request, role, &line.wake)))
    };
    let missed: Vec<_> = lines.iter().filter(|line| !is_walked(line)).collect();
    assert!(missed.is_empty(), "no case walks these: {missed:?}");
}
