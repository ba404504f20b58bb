//! Compiling a source with the promptlets of its registry (reference: registries-and-templates,
//! "Compiling"), and with promptlets that are to be published before it.

use std::collections::BTreeSet;

use super::artifact::Artifact;
use super::id::{ArtifactId, Model, generic};
use super::version::VersionRecord;
use super::versions;
use crate::base::{ArtifactName, Range, Result, Version};
use crate::resources::registries::ArtifactType;
use crate::store::View;
use crate::templates::{self, Compilation, Imported};

/// The longest chain of imports below an artifact
/// (reference: registries-and-templates, "Compiling").
const MAX_DEPTH: u32 = 16;

/// An artifact imports at most 1,000 promptlets, directly or through others: their names are stored
/// with each of its versions.
const MAX_PROMPTLETS: usize = 1000;

/// To compile a text, at most 8 MiB of promptlets are read, plus the one that exceeds it. A compiled
/// text has at most 1 MiB, so only a text made to be slow comes near; and all writers wait meanwhile.
const MAX_READ_BYTES: usize = 8 * 1024 * 1024;
/// The bytes that the name of an import or a variable counts for in [`MAX_READ_BYTES`].
const NAME_BYTES: usize = 64;

/// A source compiled with the promptlets of its registry.
pub struct CompiledSource {
    /// The text, its imports and variables, and its problems.
    pub compilation: Compilation,
    pub depth: u32,
    pub transitive_imports: BTreeSet<ArtifactName>,
}

/// A promptlet that is to be published before the text that imports it.
pub struct Unpublished {
    pub name: ArtifactName,
    pub version: Version,
    /// The model that its text is for.
    pub model: Model,
    pub compiled: CompiledSource,
}

impl Unpublished {
    /// Whether an import in a text for this model may mean it.
    fn is_meant(&self, name: &ArtifactName, range: &Range, model: &Model) -> bool {
        let is_for_model = self.model == *model || self.model == generic();
        self.name == *name && range.contains(self.version.numbers()) && is_for_model
    }
}

/// What an import resolves to.
enum Promptlet<'a> {
    Published(Box<VersionRecord>),
    Unpublished(&'a Unpublished),
}

impl Promptlet<'_> {
    fn version(&self) -> &Version {
        match self {
            Promptlet::Published(row) => &row.version,
            Promptlet::Unpublished(one) => &one.version,
        }
    }

    fn depth(&self) -> u32 {
        match self {
            Promptlet::Published(row) => row.depth,
            Promptlet::Unpublished(one) => one.compiled.depth,
        }
    }

    fn transitive_imports(&self) -> Vec<ArtifactName> {
        match self {
            Promptlet::Published(row) => row.transitive_imports.clone(),
            Promptlet::Unpublished(one) => {
                one.compiled.transitive_imports.iter().cloned().collect()
            }
        }
    }

    /// Its text and variables, and the bytes that were read for them.
    fn imported(self, view: &View) -> Result<(Imported, usize)> {
        match self {
            Promptlet::Published(row) => {
                let row = *row;
                let texts = versions::text(view, &row)?;
                let names = row.imports.len() + row.transitive_imports.len() + row.variables.len();
                let bytes = texts.bytes() + NAME_BYTES * names;
                let text = texts.compiled().to_string();
                Ok((Imported { version: row.version, text, variables: row.variables }, bytes))
            }
            Promptlet::Unpublished(one) => {
                let Compilation { text, variables, .. } = one.compiled.compilation.clone();
                let bytes = text.len() + NAME_BYTES * variables.len();
                Ok((Imported { version: one.version.clone(), text, variables }, bytes))
            }
        }
    }
}

/// Compiles a source as the text of `id` for `model`.
///
/// # Errors
/// If the store fails. Problems of the source are part of the result.
pub fn compile(
    view: &View,
    id: &ArtifactId,
    model: &Model,
    source: &str,
) -> Result<CompiledSource> {
    compile_after(view, id, model, source, &[], &mut 0)
}

/// Does the same as [`compile`] as if these promptlets were published already. `read` counts the bytes
/// that several such compilations read together.
///
/// # Errors
/// As [`compile`].
pub fn compile_after(
    view: &View,
    id: &ArtifactId,
    model: &Model,
    source: &str,
    unpublished: &[Unpublished],
    read: &mut usize,
) -> Result<CompiledSource> {
    let mut depth = 0;
    let mut transitive_imports = BTreeSet::new();
    let find = |name: &ArtifactName, range: &Range| -> Result<_> {
        let itself = |name: &ArtifactName| id.kind == ArtifactType::Promptlet && *name == id.name;
        if itself(name) {
            return Ok(Err("a promptlet cannot import itself".to_string()));
        }
        if *read > MAX_READ_BYTES {
            return Ok(Err(
                "the imports before this one are too large together; import less".to_string()
            ));
        }
        let found = match resolve(view, id, model, (name, range), unpublished)? {
            Ok(found) => found,
            Err(message) => return Ok(Err(message)),
        };
        let imports = found.transitive_imports();
        if imports.iter().any(itself) {
            return Ok(Err(format!(
                "\"{name}\" {} imports this promptlet, which cannot import itself",
                found.version()
            )));
        }
        if found.depth() + 1 > MAX_DEPTH {
            return Ok(Err(format!("makes a chain of more than {MAX_DEPTH} imports")));
        }
        depth = depth.max(found.depth() + 1);
        transitive_imports.insert(name.clone());
        transitive_imports.extend(imports);
        if transitive_imports.len() > MAX_PROMPTLETS {
            return Ok(Err(format!("imports more than {MAX_PROMPTLETS} promptlets")));
        }
        let (imported, bytes) = found.imported(view)?;
        *read += bytes;
        Ok(Ok(imported))
    };
    let compilation = templates::compile(source, find)?;
    Ok(CompiledSource { compilation, depth, transitive_imports })
}

/// Returns the highest promptlet of a name in a range, or why there is none.
fn resolve<'a>(
    view: &View,
    id: &ArtifactId,
    model: &Model,
    (name, range): (&ArtifactName, &Range),
    unpublished: &'a [Unpublished],
) -> Result<Result<Promptlet<'a>, String>> {
    let kind = ArtifactType::Promptlet;
    let promptlet = ArtifactId { registry: id.registry, kind, name: name.clone() };
    let published = versions::highest_for(view, &promptlet, *range, Some(model))?;
    let meant = unpublished.iter().filter(|one| one.is_meant(name, range, model));
    let newest = meant.max_by_key(|one| one.version.numbers());
    let newest = newest.filter(|one| {
        let highest = published.as_ref().map(|row| row.version.numbers());
        highest.is_none_or(|highest| one.version.numbers() >= highest)
    });
    Ok(match (newest, published) {
        (Some(one), _) if !one.compiled.compilation.problems.is_empty() => Err(format!(
            "the promptlet \"{name}\", which is to be published before, cannot be compiled"
        )),
        (Some(one), _) => Ok(Promptlet::Unpublished(one)),
        (None, Some(row)) => Ok(Promptlet::Published(Box::new(row))),
        (None, None) if view.has::<Artifact>(&promptlet)? => {
            Err(format!("the registry has no such version of the promptlet \"{name}\""))
        }
        (None, None) => Err(format!("the registry has no promptlet \"{name}\"")),
    })
}
