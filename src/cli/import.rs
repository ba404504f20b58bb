//! `roadstead import`

use std::io;
use std::path::PathBuf;

use clap::Args;
use serde_json::json;

use super::failure::Failure;
use super::installation::Installation;
use super::output;
use crate::app::DataDir;
use crate::app::control::{self, ControlResponse, Request};
use crate::app::moving::{
    ExportFile, ImportReply, ImportReport, ImportStep, Problem, Trial, check_imported, import_file,
    import_step, undo_import,
};
use crate::base::{Error, Slug};
use crate::store::Store;

/// Import an organization that was exported elsewhere, while the server runs or not
#[derive(Args)]
#[command(after_help = "The file is read and tried in a directory of its own first, so that one \
                        that is damaged or not sound changes nothing. Members are matched with \
                        accounts here by their addresses; others get an account without a password: \
                        print each a link with `roadstead reset-password`.\n\nIf it is interrupted, \
                        nobody sees anything of it: repeat it, or remove it with --undo.\n\n\
                        Exit codes: 0 done, 1 failed, 2 cannot be opened.")]
pub struct Import {
    /// File that `roadstead export` wrote, or - for stdin
    #[arg(required_unless_present = "undo")]
    file: Option<PathBuf>,

    /// Another slug for the organization
    #[arg(long = "as", value_name = "SLUG", env = "ROADSTEAD_AS", value_parser = |text: &str| Slug::parse(text))]
    slug: Option<Slug>,

    /// Make members also of accounts here whose address nobody has proved
    #[arg(long, env = "ROADSTEAD_ACCEPT_UNPROVED")]
    accept_unproved: bool,

    /// Remove what an interrupted import has written
    #[arg(long, env = "ROADSTEAD_UNDO", conflicts_with_all = ["file", "slug", "accept_unproved"])]
    undo: bool,

    #[command(flatten)]
    installation: Installation,
}

impl From<Problem> for Failure {
    fn from(problem: Problem) -> Self {
        Failure::Failed(problem.0)
    }
}

impl Import {
    pub(super) fn run(self) -> Result<(), Failure> {
        self.installation.init_logging();
        let place = self.place()?;
        let Some(path) = &self.file else {
            let target = self.target(&place)?;
            let undone = undo_import(&mut |step| target.apply(step));
            target.close();
            undone?;
            let text = "The unfinished import was removed.";
            return output::print(self.installation.json(), &json!({"undone": true}), text);
        };
        output::progress("reading the file");
        let trial = place.trial()?;
        let is_stdin = path.as_os_str() == "-";
        let opened = if is_stdin {
            trial.keep(&mut io::stdin().lock()).and_then(|kept| ExportFile::open(&kept))
        } else {
            ExportFile::open(path)
        };
        let name = if is_stdin { "stdin".to_string() } else { path.display().to_string() };
        let mut file = opened.map_err(|problem| Failure::Failed(format!("{name}: {problem}")))?;
        file.arriving.slug = self.slug.clone();
        file.arriving.accepts_unproved = self.accept_unproved;
        let tried = try_file(trial, &mut file);
        output::progress("");
        tried?;
        let target = self.target(&place)?;
        let all = file.records;
        let imported = import_file(&mut file, &mut |step| target.apply(step), &mut |done| {
            output::progress(&format!("{done} of {all} records"));
        });
        output::progress("");
        target.close();
        let report = imported?;
        output::print(
            self.installation.json(),
            &report,
            text(&report, &place.flags(&self.installation.common.data)),
        )
    }

    fn place(&self) -> Result<Place, Failure> {
        if self.installation.store.is_given()? {
            return Ok(Place::Database);
        }
        Ok(Place::Directory(self.installation.existing_dir()?))
    }

    /// Opens it, unless a server has its directory open.
    fn target<'a>(&self, place: &'a Place) -> Result<Target<'a>, Failure> {
        match place {
            Place::Directory(dir) if control::is_served(dir) => Ok(Target::Served(dir)),
            Place::Directory(dir) => Ok(Target::Opened(Box::new(dir.open()?))),
            Place::Database => {
                let Installation { store, common } = &self.installation;
                let opened = store.open(common, "import")?;
                let opened = opened.ok_or_else(|| Failure::Usage("--store is missing".into()))?;
                Ok(Target::Opened(Box::new(opened)))
            }
        }
    }
}

/// Where the installation is.
enum Place {
    Directory(DataDir),
    Database,
}

impl Place {
    /// Begins a trial of the file.
    fn trial(&self) -> Result<Trial, Problem> {
        match self {
            Place::Directory(dir) => Trial::begin(dir),
            Place::Database => Trial::begin_in(&std::env::temp_dir()),
        }
    }

    /// The flags that name it for another command.
    fn flags(&self, data: &str) -> String {
        match self {
            Place::Directory(_) => format!(" --data {data}"),
            // Its URL may have a password.
            Place::Database => " --store URL".into(),
        }
    }
}

fn text(report: &ImportReport, flags: &str) -> String {
    let ImportReport { org_slug, records, known_members, created_members, .. } = report;
    let mut text = format!("The organization {org_slug} was imported: {records} records.\n");
    if !known_members.is_empty() {
        text.push_str(&format!("Members with an account here: {}\n", known_members.join(", ")));
    }
    for email in created_members {
        text.push_str(&format!(
            "A member without a password: {email}; print a link for them:\n  roadstead \
             reset-password --email {email}{flags}\n"
        ));
    }
    text.push_str(
        "Set its secrets again (those of environments, keys of providers and credentials, signing keys \
         of channels and wakes), switch its webhooks on, and verify its domains.",
    );
    text
}

/// Imports the file into an empty installation and checks that.
fn try_file(trial: Trial, file: &mut ExportFile) -> Result<(), Failure> {
    let all = file.records;
    let store = trial.store()?;
    let report = import_file(file, &mut |step| stepped(&store, &step), &mut |done| {
        output::progress(&format!("trying {done} of {all} records"));
    })?;
    output::progress("checking");
    Ok(check_imported(&store, &report.org_slug)?)
}

fn stepped(store: &Store, step: &ImportStep) -> Result<ImportReply, Problem> {
    import_step(store, step).map_err(|error: Error| Problem(error.message().into()))
}

/// Where an organization is imported.
enum Target<'a> {
    /// A server has it open.
    Served(&'a DataDir),
    Opened(Box<Store>),
}

impl Target<'_> {
    /// Leaves a store that others may use.
    fn close(&self) {
        if let Target::Opened(store) = self {
            store.close();
        }
    }

    fn apply(&self, step: ImportStep) -> Result<ImportReply, Problem> {
        let dir = match self {
            Target::Opened(store) => return stepped(store, &step),
            Target::Served(dir) => dir,
        };
        let reply = control::ask(dir, &Request::Import { step }, &mut |_| {});
        match reply.map_err(|error| Problem(error.to_string()))? {
            Some(ControlResponse::Imported(reply)) => Ok(reply),
            Some(ControlResponse::Failed(why)) => Err(Problem(why)),
            Some(_) => Err(Problem("an unexpected reply of the server".into())),
            None => Err(Problem("the server has stopped meanwhile".into())),
        }
    }
}
